/** What writes observations, in the database thread. */
import type { DatabaseSync } from 'node:sqlite';
import type { BatchRecord } from '../../src/queue/record.ts';
import type { Access, OperationOptions, Operations } from '../../src/sqlite/operation.ts';
import { keepBatch } from '../../src/sqlite/queue/operations.ts';
import type { WrittenParts } from '../../src/sqlite/queue/part-operations.ts';
import { deletedProjects } from '../../src/sqlite/queue/removal-operations.ts';
import type { TraceRows } from '../../src/store/rows/observation-write.ts';
import { ObservationWrite } from '../../src/store/rows/observation-write.ts';
import { traceReadingCalls } from './trace-reading.ts';
import { Statements } from './trace-statements.ts';
import { WAITING_CHILDREN, WaitingChildren } from './waiting-children.ts';

const SCHEMA = `
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
  -- The id of a span begins with its trace's, which finds it; every other id is found here.
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
  -- Which traces a raw batch has events of: it goes when none of them is left.
  CREATE TABLE IF NOT EXISTS batch_traces (
    batch INTEGER NOT NULL,
    trace INTEGER NOT NULL,
    PRIMARY KEY (batch, trace)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS batch_traces_by_trace ON batch_traces (trace);
  ${WAITING_CHILDREN}
`;

/** Answered when the batch is not stored yet and did not come along. */
export const NEEDS_BATCH = 'needs batch';
/** Answered when the project was deleted: nothing was written. */
export const PROJECT_DELETED = 'project deleted';

export function operations(
  db: DatabaseSync,
  access: Access,
  _options: OperationOptions,
): Operations {
  if (access === 'read') return { calls: traceReadingCalls(db) };
  db.exec(SCHEMA);
  const keep = keepBatch(db);
  const statements = new Statements(db);
  const waiting = new WaitingChildren(db);
  const isDeleted = deletedProjects(db);
  /** Returns whether its usage was counted by this call. */
  const write = (
    project: string,
    batchId: string,
    record: BatchRecord | null,
    receivedAt: number,
    traces: readonly TraceRows[],
    updates: readonly unknown[],
    children: readonly unknown[],
    usageAt: number,
    parts: WrittenParts | null,
  ): typeof NEEDS_BATCH | typeof PROJECT_DELETED | boolean => {
    if (isDeleted(project)) return PROJECT_DELETED;
    const known = statements.seqOf(batchId);
    if (known === undefined && record === null) return NEEDS_BATCH;
    const kept = known === undefined && record !== null ? keep(record, usageAt, parts) : undefined;
    const batch = known ?? kept?.[0] ?? 0;
    const run = new ObservationWrite(statements, waiting, project, batch, receivedAt);
    for (const rows of traces) run.writeTrace(rows);
    run.writeChildren(children);
    run.writeUpdates(updates);
    run.finish();
    return kept?.[2] === true;
  };
  return { calls: { 'traces.write': write }, growing: ['traces.write'] };
}
