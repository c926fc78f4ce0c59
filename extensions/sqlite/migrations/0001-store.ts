import type { DatabaseSync } from 'node:sqlite';
import type { FileMigration } from '../../../src/sqlite/migrate.ts';
import { queueTables } from '../../../src/sqlite/queue/migrations/0001-queues.ts';
import { finds } from '../../../src/sqlite/rows.ts';

/** The tables of a store: of its queues, of tenancy and its logs, and of traces. */
export const storeTables: FileMigration = {
  name: '0001-store',
  apply(db) {
    queueTables.apply(db);
    db.exec(TABLES);
    for (const column of ADDED_COLUMNS) addColumn(db, column);
    db.exec(INDEXES);
  },
};

/** Columns of `projects` that the first files do not have. */
const ADDED_COLUMNS = ['retention_days', 'events_per_month', 'bytes_per_hour'];

function addColumn(db: DatabaseSync, column: string): void {
  const isThere = finds(db, "SELECT 1 FROM pragma_table_info('projects') WHERE name = ?");
  if (!isThere(column)) db.exec(`ALTER TABLE projects ADD COLUMN ${column} INTEGER`);
}

const TABLES = `
  CREATE TABLE IF NOT EXISTS organizations (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    plan TEXT NOT NULL,
    created_at INTEGER NOT NULL
  ) STRICT;
  CREATE TABLE IF NOT EXISTS projects (
    id TEXT PRIMARY KEY,
    organization TEXT NOT NULL,
    name TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    retention_days INTEGER,
    events_per_month INTEGER,
    bytes_per_hour INTEGER
  ) STRICT;
  CREATE TABLE IF NOT EXISTS api_keys (
    id TEXT PRIMARY KEY,
    project TEXT NOT NULL,
    name TEXT NOT NULL,
    hash BLOB NOT NULL UNIQUE,
    prefix TEXT NOT NULL,
    permissions INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    last_used_at INTEGER,
    revoked_at INTEGER
  ) STRICT;
  CREATE INDEX IF NOT EXISTS api_keys_by_project ON api_keys (project);
  CREATE TABLE IF NOT EXISTS audit_log (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    address TEXT,
    action TEXT NOT NULL,
    subject TEXT NOT NULL,
    details TEXT NOT NULL
  ) STRICT;
  CREATE TRIGGER IF NOT EXISTS audit_log_is_not_changed BEFORE UPDATE ON audit_log
    BEGIN SELECT raise(ABORT, 'the audit log is only added to'); END;
  CREATE TRIGGER IF NOT EXISTS audit_log_is_not_shortened BEFORE DELETE ON audit_log
    BEGIN SELECT raise(ABORT, 'the audit log is only added to'); END;
  CREATE TABLE IF NOT EXISTS rejections (
    project TEXT NOT NULL,
    n INTEGER NOT NULL,
    at INTEGER NOT NULL,
    key TEXT NOT NULL,
    path TEXT NOT NULL,
    code TEXT NOT NULL,
    reason TEXT NOT NULL,
    item TEXT,
    count INTEGER NOT NULL,
    PRIMARY KEY (project, n)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS rejected_hours (
    hour INTEGER NOT NULL,
    project TEXT NOT NULL,
    key TEXT NOT NULL,
    code TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (hour, project, key, code)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS traces (
    n INTEGER PRIMARY KEY,
    project TEXT NOT NULL,
    key ANY NOT NULL,
    long_id TEXT,
    at_ms INTEGER NOT NULL,
    at_ns INTEGER NOT NULL,
    start_ms INTEGER,
    start_ns INTEGER,
    end_ms INTEGER,
    end_ns INTEGER,
    root INTEGER,
    name TEXT,
    status INTEGER,
    observations INTEGER NOT NULL,
    model_usage TEXT,
    other_usage TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    UNIQUE (project, key)
  ) STRICT;
  CREATE INDEX IF NOT EXISTS traces_by_time ON traces (project, at_ms, at_ns, n);
  CREATE INDEX IF NOT EXISTS traces_by_age ON traces (project, updated_at);
  CREATE TABLE IF NOT EXISTS observations (
    n INTEGER PRIMARY KEY,
    trace INTEGER NOT NULL,
    key ANY NOT NULL,
    long_id TEXT,
    batch INTEGER NOT NULL,
    position INTEGER NOT NULL,
    version ANY NOT NULL,
    flags INTEGER NOT NULL,
    parent ANY,
    name TEXT,
    kind INTEGER,
    status INTEGER,
    start_ms INTEGER,
    start_ns INTEGER,
    end_ms INTEGER,
    end_ns INTEGER,
    model TEXT,
    usage TEXT,
    session TEXT,
    user TEXT,
    error TEXT,
    custom TEXT,
    external TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    merged TEXT,
    UNIQUE (trace, key)
  ) STRICT;
  -- The key of a span begins with a colon: a lookup finds it by its trace. This index finds every other key.
  CREATE INDEX IF NOT EXISTS observations_by_key ON observations (key)
    WHERE substr(key, 1, 1) <> ':';
  CREATE TABLE IF NOT EXISTS pending_updates (
    project TEXT NOT NULL,
    key ANY NOT NULL,
    batch INTEGER NOT NULL,
    position INTEGER NOT NULL,
    row TEXT NOT NULL,
    received_at INTEGER NOT NULL,
    PRIMARY KEY (project, key, batch, position)
  ) STRICT, WITHOUT ROWID;
  -- The traces that have events of a raw batch: the batch is removed after the last of them.
  CREATE TABLE IF NOT EXISTS batch_traces (
    batch INTEGER NOT NULL,
    trace INTEGER NOT NULL,
    PRIMARY KEY (batch, trace)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS batch_traces_by_trace ON batch_traces (trace);
  -- Runs that name a parent and no trace, while the trace of the parent is not known. Each has a row in the
  -- trace of its parent's row, or in a trace with its own id, and moves when the parent's trace is known.
  CREATE TABLE IF NOT EXISTS waiting_children (
    project TEXT NOT NULL,
    key ANY NOT NULL,
    parent ANY NOT NULL,
    received_at INTEGER NOT NULL,
    PRIMARY KEY (project, key)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS waiting_children_by_parent ON waiting_children (project, parent);
  -- Batches that no trace points into any more; housekeeping removes them.
  CREATE TABLE IF NOT EXISTS free_batches (seq INTEGER PRIMARY KEY) STRICT;
`;

const INDEXES = `
  CREATE INDEX IF NOT EXISTS projects_with_limits ON projects (id)
    WHERE (events_per_month IS NOT NULL OR bytes_per_hour IS NOT NULL);
`;
