import type { FileMigration } from '../../migrate.ts';

/** The tables of the queues, of large bodies, and of the usage ledger. */
export const queueTables: FileMigration = {
  name: '0001-queues',
  apply: (db) => db.exec(TABLES),
};

const TABLES = `
  CREATE TABLE IF NOT EXISTS raw_batches (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    organization TEXT NOT NULL,
    project TEXT NOT NULL,
    key TEXT NOT NULL,
    permissions INTEGER NOT NULL,
    format INTEGER NOT NULL,
    encoding INTEGER NOT NULL,
    received_at INTEGER NOT NULL,
    request_items INTEGER NOT NULL,
    items INTEGER NOT NULL,
    usage_events INTEGER NOT NULL,
    usage_bytes INTEGER NOT NULL,
    positions TEXT,
    rejections TEXT,
    crc INTEGER NOT NULL,
    body BLOB NOT NULL
  ) STRICT;
  CREATE TABLE IF NOT EXISTS queue_branches (
    id INTEGER PRIMARY KEY,
    queue TEXT NOT NULL,
    branch TEXT NOT NULL,
    UNIQUE (queue, branch)
  ) STRICT;
  CREATE TABLE IF NOT EXISTS queue_pending (
    branch INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    items INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    received_at INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    due INTEGER NOT NULL,
    PRIMARY KEY (branch, seq)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS dead_letters (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    branch INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    items INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    code TEXT NOT NULL,
    message TEXT NOT NULL,
    failed_at INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX IF NOT EXISTS dead_letters_by_seq ON dead_letters (seq);
  CREATE TABLE IF NOT EXISTS quarantined (
    queue TEXT NOT NULL,
    seq INTEGER NOT NULL,
    reason TEXT NOT NULL,
    found_at INTEGER NOT NULL,
    PRIMARY KEY (queue, seq)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS idempotency (
    hash BLOB PRIMARY KEY,
    request_hash BLOB NOT NULL,
    status INTEGER NOT NULL,
    content_type TEXT NOT NULL,
    body BLOB NOT NULL,
    expires_at INTEGER NOT NULL,
    project TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS idempotency_by_expiry ON idempotency (expires_at);
  CREATE TABLE IF NOT EXISTS usage_ledger (
    batch_id TEXT PRIMARY KEY,
    organization TEXT NOT NULL,
    project TEXT NOT NULL,
    key TEXT NOT NULL,
    accepted_at INTEGER NOT NULL,
    hour INTEGER NOT NULL,
    events INTEGER NOT NULL,
    bytes INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS usage_hours (
    organization TEXT NOT NULL,
    project TEXT NOT NULL,
    key TEXT NOT NULL,
    hour INTEGER NOT NULL,
    events INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    PRIMARY KEY (organization, project, key, hour)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS usage_hours_by_hour ON usage_hours (hour);
  -- No data of these projects is written again. A project's row stays for good: its id is random, so it never
  -- comes back.
  CREATE TABLE IF NOT EXISTS deleted_projects (
    project TEXT PRIMARY KEY,
    deleted_at INTEGER NOT NULL,
    purged INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS body_parts (n INTEGER PRIMARY KEY, bytes BLOB NOT NULL) STRICT;
  CREATE TABLE IF NOT EXISTS batch_parts (n INTEGER PRIMARY KEY, seq INTEGER NOT NULL) STRICT;
  CREATE INDEX IF NOT EXISTS batch_parts_by_seq ON batch_parts (seq);
  CREATE TABLE IF NOT EXISTS free_parts (n INTEGER PRIMARY KEY) STRICT;
`;
