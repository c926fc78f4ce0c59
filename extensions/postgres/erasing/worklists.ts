/** Erasures, and the traces and batches that the running ones work on. */
import type { Steps } from '../../../src/component/background.ts';
import type { BlockRow } from '../../../src/store/erasing/blocks.ts';
import type {
  ErasingTables,
  ErasureRow,
  ErasureScope,
  Stepping,
} from '../../../src/store/erasing/tables.ts';
import type { Key } from '../../../src/store/rows/observation-row.ts';
import type { Numbered } from '../../../src/tenancy/rows.ts';
import type { Postgres } from '../connection/pool.ts';
import type { PostgresClient } from '../connection/statement.ts';
import { row, rows } from '../connection/statement.ts';
import { insertAudit } from '../tenancy/log-rows.ts';
import { toStoredText } from '../tenancy/stored-text.ts';
import { detachedPartitions } from '../traces/retiring.ts';
import { bytesOfKey, keyOfBytes } from '../traces/text.ts';

type Database = Pick<Postgres, 'query' | 'transaction'>;

/** Rows of worklists that one step adds or removes. */
const STEP = 1000;
/** Rows that one step of a walk reads. */
const WALK_ROWS = 500;

const COLUMNS = 'n, id, project, traces, observations, bytes, record';
const TABLES = [
  ['erasure_traces', 'key'],
  ['erasure_batches', 'batch'],
  ['erasure_items', 'id'],
] as const;

type Requests = Pick<ErasingTables, 'add' | 'blocks' | 'get' | 'list'>;

/** The side of requests and readers. */
export function erasureRequests(write: Database, read: PostgresClient): Requests {
  return {
    add: ({ id, project, record }, change, blocks) =>
      write.transaction(async (client) => {
        await client.query(
          `INSERT INTO erasures (id, project, is_open, traces, observations, bytes, record)
           VALUES ($1, $2, true, 0, 0, 0, $3)`,
          [id, project, record],
        );
        await client.query(
          `INSERT INTO erasure_blocks
           SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[]) AS g (project, hash, until)
           ON CONFLICT (project, hash) DO UPDATE SET
             until = greatest(erasure_blocks.until, excluded.until)`,
          [
            blocks.map((block) => block.project),
            blocks.map(({ hash }) => hash),
            blocks.map(({ until }) => until),
          ],
        );
        await insertAudit(client, change);
      }),
    blocks: (now) =>
      rows<BlockRow>(read, 'SELECT project, hash, until FROM erasure_blocks WHERE until > $1', [
        now,
      ]),
    get: (project, id) =>
      row<ErasureRow>(read, `SELECT ${COLUMNS} FROM erasures WHERE project = $1 AND id = $2`, [
        project,
        toStoredText(id),
      ]),
    list: (project, before, limit) =>
      rows<Numbered<ErasureRow>>(
        read,
        `SELECT ${COLUMNS} FROM erasures WHERE project = $1 AND n < $2 ORDER BY n DESC LIMIT $3`,
        [project, before, limit],
      ),
  };
}

type Progress = Pick<ErasingTables, 'open' | 'save' | 'end' | 'keys' | 'forget'>;

export function erasureProgress(database: Database): Progress {
  return {
    open: () =>
      rows<ErasureRow>(database, `SELECT ${COLUMNS} FROM erasures WHERE is_open ORDER BY n`),
    async save(id, record) {
      await database.query('UPDATE erasures SET record = $2 WHERE id = $1', [id, record]);
    },
    end: (id, record, { traces, observations, bytes }, change) =>
      database.transaction(async (client) => {
        await client.query(
          `UPDATE erasures SET is_open = false, record = $2, traces = $3, observations = $4, bytes = $5
           WHERE id = $1`,
          [id, record, traces, observations, bytes],
        );
        if (change !== null) await insertAudit(client, change);
      }),
    async keys(id, after) {
      const found = await rows<{ key: Buffer }>(
        database,
        `SELECT key FROM erasure_traces WHERE erasure = $1 AND ($2::bytea IS NULL OR key > $2)
         ORDER BY key LIMIT ${WALK_ROWS}`,
        [id, after === null ? null : bytesOfKey(after)],
      );
      return found.map(({ key }) => keyOfBytes(key));
    },
    async *forget(id) {
      for (const [table, column] of TABLES) {
        for (let removed = STEP; removed === STEP; ) {
          const { rows: gone } = await database.query(
            `DELETE FROM ${table} WHERE erasure = $1 AND ${column} IN (
               SELECT ${column} FROM ${table} WHERE erasure = $1 LIMIT ${STEP}) RETURNING 1`,
            [id],
          );
          removed = gone.length;
          yield;
        }
      }
    },
  };
}

type Listing = Pick<ErasingTables, 'hasUnstored' | 'addTraces' | 'addWaiting'>;

export function erasureListing(database: Database): Listing {
  return {
    async hasUnstored({ project, until }) {
      const found = await row<{ some: boolean }>(
        database,
        `SELECT EXISTS (
           SELECT 1 FROM (
             SELECT batch_id FROM queue_branches b CROSS JOIN LATERAL (
               SELECT batch_id, project, received_at FROM queue_entries e
               WHERE e.branch = b.id ORDER BY e.batch_id LIMIT ${WALK_ROWS}) head
             WHERE head.project = $1 AND head.received_at <= $2) waiting
           WHERE NOT EXISTS (SELECT 1 FROM batch_traces p WHERE p.batch = waiting.batch_id)) AS some`,
        [project, until],
      );
      if (found?.some === true) return true;
      // Their batches are noted as free after the rows of their traces are gone, and go with the end of the erasure.
      return (await detachedPartitions(database)).some(({ isClean }) => !isClean);
    },
    addTraces: (scope, keys) => addTraces(database, scope, keys),
    addWaiting: (scope) => addWaiting(database, scope),
  };
}

type FoundTrace = { readonly n: number; readonly key: Buffer; readonly observations: number };

async function* addTraces(
  database: Database,
  { id, project, until }: ErasureScope,
  keys: readonly Key[],
): Stepping<{ traces: number; observations: number }> {
  const found = await rows<FoundTrace>(
    database,
    `WITH found AS (
       SELECT t.n, t.key, t.observations FROM trace_keys k JOIN traces t ON t.n = k.n
       WHERE k.project = $2 AND k.key = ANY ($3::bytea[]) AND t.project = $2 AND t.created_at <= $4
     ), listed AS (
       INSERT INTO erasure_traces SELECT $1, key, true FROM found
       ON CONFLICT (erasure, key) DO UPDATE SET is_open = true
     )
     SELECT n, key, observations FROM found`,
    [id, project, keys.map(bytesOfKey), until],
  );
  yield;
  for (const { n } of found) {
    for (let after: string | null = ''; after !== null; ) {
      after = await addBatchesOf(database, id, n, after);
      if (after !== null) yield;
    }
  }
  return {
    traces: found.length,
    observations: found.reduce((sum, { observations }) => sum + observations, 0),
  };
}

/** Lists some batches of a trace; resolves with the last one if there may be more. */
async function addBatchesOf(
  database: Database,
  id: string,
  trace: number,
  after: string,
): Promise<string | null> {
  const added = await rows<{ batch: string }>(
    database,
    `INSERT INTO erasure_batches
     SELECT $1, batch, true FROM batch_traces WHERE trace = $2 AND batch > $3
     ORDER BY batch LIMIT ${STEP}
     ON CONFLICT (erasure, batch) DO UPDATE SET is_open = true RETURNING batch`,
    [id, trace, after],
  );
  const last = added
    .map(({ batch }) => batch)
    .sort()
    .at(-1);
  return added.length === STEP && last !== undefined ? last : null;
}

async function* addWaiting(database: Database, { id, project, until }: ErasureScope): Steps {
  const branches = await rows<{ id: number }>(database, 'SELECT id FROM queue_branches');
  const walks = [
    ...branches.map((branch) => ['queue_entries', branch.id] as const),
    ['queue_dead_letters', null] as const,
  ];
  for (const [table, branch] of walks) {
    for (let after: string | undefined = ''; after !== undefined; ) {
      after = await addWaitingStep(database, table, [id, project, until, after, branch]);
      yield;
    }
  }
}

async function addWaitingStep(
  database: Database,
  table: 'queue_entries' | 'queue_dead_letters',
  values: readonly unknown[],
): Promise<string | undefined> {
  const where = table === 'queue_entries' ? 'branch = $5' : 'project = $2 AND $5::integer IS NULL';
  const found = await row<{ read: number; last: string | null }>(
    database,
    `WITH page AS (
       SELECT DISTINCT batch_id, project, received_at FROM ${table}
       WHERE ${where} AND batch_id > $4 ORDER BY batch_id LIMIT ${WALK_ROWS}
     ), listed AS (
       INSERT INTO erasure_batches
       SELECT DISTINCT $1, batch_id, true FROM page WHERE project = $2 AND received_at <= $3
       ON CONFLICT (erasure, batch) DO UPDATE SET is_open = true
     )
     SELECT count(*) AS read, max(batch_id) AS last FROM page`,
    values,
  );
  return found?.read === WALK_ROWS ? (found.last ?? undefined) : undefined;
}
