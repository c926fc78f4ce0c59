/** Erasures, and the traces and batches that the running ones work on, in the database thread. */
import type { DatabaseSync } from 'node:sqlite';
import { allBranches } from '../../../src/sqlite/queue/lookups.ts';
import { cell, finds, rows } from '../../../src/sqlite/rows.ts';
import type { BlockRow } from '../../../src/store/erasing/blocks.ts';
import type { ErasureRow } from '../../../src/store/erasing/tables.ts';
import type { Key } from '../../../src/store/rows/observation-row.ts';
import type { AuditRow, Numbered } from '../../../src/tenancy/rows.ts';
import { auditWriting } from '../tenancy/audit-writing.ts';

/** Rows of worklists that one step adds for a trace, or removes. */
const STEP_ROWS = 1000;
/** Rows that one step of a walk reads. */
const WALK_ROWS = 500;

/** A trace with more batches than one step adds, and the last batch that it added. */
export type LargeTrace = { readonly key: Key; readonly after: number };

export function erasureOperations(db: DatabaseSync) {
  const insert = db.prepare(
    `INSERT INTO erasures (id, project, is_open, traces, observations, bytes, record)
     VALUES (?, ?, 1, 0, 0, 0, ?)`,
  );
  const update = db.prepare('UPDATE erasures SET record = ? WHERE id = ?');
  const end = db.prepare(
    `UPDATE erasures SET record = ?, traces = ?, observations = ?, bytes = ?, is_open = 0
     WHERE id = ?`,
  );
  const addBlock = db.prepare(
    `INSERT INTO erasure_blocks VALUES (:project, :hash, :until)
     ON CONFLICT DO UPDATE SET until = max(until, excluded.until)`,
  );
  const unblock = db.prepare(
    `DELETE FROM erasure_blocks WHERE (project, hash) IN (
       SELECT project, hash FROM erasure_blocks WHERE until <= ? LIMIT ${STEP_ROWS})`,
  );
  const { record: audit } = auditWriting(db);
  const forgetting = ['erasure_traces', 'erasure_batches', 'erasure_items'].map((table) => {
    const column = { erasure_traces: 'key', erasure_batches: 'batch', erasure_items: 'id' }[table];
    return db.prepare(
      `DELETE FROM ${table} WHERE erasure = ?1 AND ${column} IN (
         SELECT ${column} FROM ${table} WHERE erasure = ?1 LIMIT ${STEP_ROWS})`,
    );
  });
  return {
    'erasing.add': (
      { id, project, record }: ErasureRow,
      change: AuditRow,
      blocks: readonly BlockRow[],
    ): void => {
      insert.run(id, project, record);
      for (const block of blocks) addBlock.run(block);
      audit(change);
    },
    /** Removes some blocks that have ended; returns whether there may be more. */
    'erasing.unblock': (now: number): boolean => Number(unblock.run(now).changes) === STEP_ROWS,
    'erasing.save': ({ id, record }: Pick<ErasureRow, 'id' | 'record'>): void => {
      update.run(record, id);
    },
    'erasing.end': (
      { id, record, traces, observations, bytes }: Omit<ErasureRow, 'project'>,
      change: AuditRow | null,
    ): void => {
      end.run(record, traces, observations, bytes, id);
      if (change !== null) audit(change);
    },
    /** Removes some rows of the worklists of an erasure; returns whether there may be more. */
    'erasing.forget': (id: string): boolean =>
      forgetting.map((each) => each.run(id).changes).some((removed) => removed === STEP_ROWS),
    ...worklistOperations(db),
  };
}

function worklistOperations(db: DatabaseSync) {
  const find = rows<{ n: number; createdAt: number; observations: number }>(
    db,
    'SELECT n, created_at AS createdAt, observations FROM traces WHERE project = ? AND key = ?',
  );
  const open = db.prepare(
    `INSERT INTO erasure_traces VALUES (?, ?, 1)
     ON CONFLICT DO UPDATE SET is_open = 1`,
  );
  const openBatches = db.prepare(
    `INSERT INTO erasure_batches
     SELECT ?1, batch, 1 FROM batch_traces INDEXED BY batch_traces_by_trace
     WHERE trace = ?2 AND batch > ?3 ORDER BY batch LIMIT ${STEP_ROWS}
     ON CONFLICT DO UPDATE SET is_open = 1`,
  );
  const lastOf = cell<number>(
    db,
    `SELECT max(batch) FROM (
       SELECT batch FROM batch_traces INDEXED BY batch_traces_by_trace
       WHERE trace = ? AND batch > ? ORDER BY batch LIMIT ${STEP_ROWS})`,
  );
  const openBatch = db.prepare(
    `INSERT INTO erasure_batches VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET is_open = 1`,
  );
  const addBatches = (id: string, trace: number, key: Key, after: number): LargeTrace[] => {
    const last = lastOf(trace, after);
    const { changes } = openBatches.run(id, trace, after);
    return Number(changes) === STEP_ROWS && typeof last === 'number' ? [{ key, after: last }] : [];
  };
  return {
    /**
     * Lists traces whose first event was received until a time, with their batches. `large` are those that have more batches.
     */
    'erasing.addTraces': (
      id: string,
      project: string,
      keys: readonly Key[],
      until: number,
    ): { traces: number; observations: number; large: LargeTrace[] } => {
      const found = keys.flatMap((key) => {
        const trace = find.get(project, key);
        return trace === undefined || trace.createdAt > until ? [] : [{ key, ...trace }];
      });
      for (const { key } of found) open.run(id, key);
      return {
        traces: found.length,
        observations: found.reduce((sum, { observations }) => sum + observations, 0),
        large: found.flatMap(({ key, n }) => addBatches(id, n, key, 0)),
      };
    },
    'erasing.addBatchesOf': (
      id: string,
      project: string,
      { key, after }: LargeTrace,
    ): LargeTrace[] => {
      const trace = find.get(project, key);
      return trace === undefined ? [] : addBatches(id, trace.n, key, after);
    },
    /** Lists traces that the store has no rows of. */
    'erasing.addUnstored': (id: string, keys: readonly Key[]): void => {
      for (const key of keys) open.run(id, key);
    },
    'erasing.addBatches': (id: string, batches: readonly number[]): void => {
      for (const batch of batches) openBatch.run(id, batch);
    },
  };
}

type Found = Numbered<ErasureRow>;

export function erasureReadOperations(db: DatabaseSync) {
  const columns = 'n, id, project, traces, observations, bytes, record';
  const get = rows<Found>(db, `SELECT ${columns} FROM erasures WHERE project = ? AND id = ?`);
  const list = rows<Found>(
    db,
    `SELECT ${columns} FROM erasures WHERE project = ? AND n < ? ORDER BY n DESC LIMIT ?`,
  );
  const open = rows<Found>(
    db,
    `SELECT ${columns} FROM erasures INDEXED BY open_erasures WHERE is_open = 1 ORDER BY n`,
  );
  const hasOpenTrace = finds(
    db,
    'SELECT 1 FROM erasure_traces INDEXED BY open_erasure_traces WHERE erasure = ? AND is_open = 1 LIMIT 1',
  );
  const first = rows<{ key: Key }>(
    db,
    `SELECT key FROM erasure_traces WHERE erasure = ? ORDER BY key LIMIT ${WALK_ROWS}`,
  );
  const next = rows<{ key: Key }>(
    db,
    `SELECT key FROM erasure_traces WHERE erasure = ? AND key > ? ORDER BY key LIMIT ${WALK_ROWS}`,
  );
  const blocks = rows<BlockRow>(
    db,
    'SELECT project, hash, until FROM erasure_blocks WHERE until > ?',
  );
  return {
    'erasing.blocks': (now: number): BlockRow[] => blocks.all(now),
    'erasing.get': (project: string, id: string): Found | null => get.get(project, id) ?? null,
    'erasing.list': (project: string, before: number, limit: number): Found[] =>
      list.all(project, before, limit),
    'erasing.open': (): Found[] => open.all(),
    'erasing.hasOpenTrace': (id: string): boolean => hasOpenTrace(id),
    /** One step over the listed traces. */
    'erasing.keys': (id: string, after: Key | null): Key[] =>
      (after === null ? first.all(id) : next.all(id, after)).map(({ key }) => key),
    'erasing.hasUnstored': unstoredSearch(db),
  };
}

/** Returns an operation that finds whether a batch of the project near the head of a queue has no rows. */
function unstoredSearch(db: DatabaseSync): (project: string, until: number) => boolean {
  const branches = allBranches(db);
  const head = rows<{ seq: number }>(
    db,
    `SELECT seq FROM queue_pending WHERE branch = ? ORDER BY seq LIMIT ${WALK_ROWS}`,
  );
  const isOf = finds(
    db,
    'SELECT 1 FROM raw_batches WHERE seq = ? AND project = ? AND received_at <= ?',
  );
  const isStored = finds(db, 'SELECT 1 FROM batch_traces WHERE batch = ? LIMIT 1');
  return (project, until) =>
    branches().some((branch) =>
      head.all(branch).some(({ seq }) => isOf(seq, project, until) && !isStored(seq)),
    );
}
