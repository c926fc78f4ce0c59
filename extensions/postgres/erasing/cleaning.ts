/** Cuts erased items out of batches. */

import type { SealedBatch } from '../../../src/model/batch.ts';
import { batchOf, RECORD, RECORD_COLUMNS, recordOf } from '../../../src/queue/record.ts';
import type { BatchItem } from '../../../src/store/erasing/items.ts';
import { contentsOfErased } from '../../../src/store/erasing/items.ts';
import { tracesNamed } from '../../../src/store/erasing/named.ts';
import type {
  CleanedBatches,
  ErasedPart,
  ErasureScope,
  Stepping,
} from '../../../src/store/erasing/tables.ts';
import type { OnRemoved } from '../../../src/store/removals.ts';
import type { Key } from '../../../src/store/rows/observation-row.ts';
import { keyOfId, nameOfKey } from '../../../src/store/rows/observation-row.ts';
import { releaseStatement } from '../attachments/attachments.ts';
import type { BatchRow } from '../batches/batches.ts';
import { recordIn, withinBytes } from '../batches/batches.ts';
import type { Postgres, PostgresTransaction } from '../connection/pool.ts';
import type { PostgresClient } from '../connection/statement.ts';
import { row, rows } from '../connection/statement.ts';
import { bytesOfKey, escapeText, keyOfBytes } from '../traces/text.ts';
import type { ItemCutter } from './items.ts';

type Database = Pick<Postgres, 'query' | 'transaction'>;

/** The answers of requests are kept for a day; ids of older items are in none of them. */
const ANSWERS_MS = 25 * 3_600_000;
/** Batches that one step looks at, and the bytes of their bodies. */
const STEP_BATCHES = 50;
const STEP_BYTES = 1_048_576;

/** The items that left an entry or a dead letter of a batch. */
export type ShrunkEntry = {
  readonly branch: number;
  readonly items: number;
  readonly wasDead: boolean;
  /** Whether no item of the batch is left: the entry is gone too. */
  readonly isGone: boolean;
};

export type CleaningParts = {
  readonly database: Database;
  readonly cutter: ItemCutter;
  readonly onRemoved: OnRemoved;
  /** The queues of this process drop what they have in memory. */
  onShrunk(batchId: string, entries: readonly ShrunkEntry[]): void;
  now(): number;
};

export async function* clean(parts: CleaningParts, scope: ErasureScope): Stepping<CleanedBatches> {
  const { database } = parts;
  const sum = { items: 0, bytes: 0, unreadable: 0 };
  for (let after: string | undefined = ''; ; ) {
    const listed = await nextBatches(database, scope, after);
    after = listed.at(-1);
    if (after === undefined) break;
    const without = await withoutErased(parts, scope, listed);
    if (without.size > 0) await database.query(CLOSE, [scope.id, [...without]]);
    yield;
    for (const batch of listed.filter((id) => !without.has(id))) {
      const cleaned = await cleanBatch(parts, scope, batch);
      sum.items += cleaned.items;
      sum.bytes += cleaned.bytes;
      sum.unreadable += cleaned.unreadable;
      yield;
    }
  }
  return sum;
}

/** The open batches behind `after` that one step looks at: at least one if there is one, and of bounded bytes. */
async function nextBatches(
  database: PostgresClient,
  { id }: ErasureScope,
  after: string,
): Promise<readonly string[]> {
  const listed = await rows<{ batch: string }>(
    database,
    `SELECT batch FROM erasure_batches WHERE erasure = $1 AND batch > $2 AND is_open
     ORDER BY batch LIMIT ${STEP_BATCHES}`,
    [id, after],
  );
  const ids = listed.map(({ batch }) => batch);
  const sizes = await rows<{ id: string; bytes: number }>(
    database,
    'SELECT id, octet_length(body) AS bytes FROM batches WHERE id = ANY ($1)',
    [ids],
  );
  const bytes = new Map(sizes.map((size) => [size.id, size.bytes]));
  return withinBytes(
    ids.map((batch) => ({ id: batch, bytes: bytes.get(batch) ?? 0 })),
    STEP_BYTES,
  );
}

/** Those of the batches that are readable, and have no item to erase: most batches of queues and dead letters. */
async function withoutErased(
  { database, cutter }: CleaningParts,
  scope: ErasureScope,
  ids: readonly string[],
): Promise<ReadonlySet<string>> {
  const batchOfItem = new Map<BatchItem, string>();
  const readable = new Set<string>();
  for (const found of await rows<BatchRow>(
    database,
    `SELECT ${RECORD_COLUMNS} FROM batches WHERE id = ANY ($1)`,
    [ids],
  )) {
    try {
      const batch = batchOf(recordIn(found));
      for (const item of await cutter.items(batch)) batchOfItem.set(item, batch.id);
      readable.add(batch.id);
    } catch {
      // `cleanBatch` counts it.
    }
  }
  const erased = await erasedItems(database, scope, [...batchOfItem.keys()]);
  for (const item of erased) readable.delete(batchOfItem.get(item) ?? '');
  return readable;
}

const NONE: CleanedBatches = { items: 0, bytes: 0, unreadable: 0 };
const CLOSE = 'UPDATE erasure_batches SET is_open = false WHERE erasure = $1 AND batch = ANY ($2)';

async function cleanBatch(
  parts: CleaningParts,
  scope: ErasureScope,
  batchId: string,
): Promise<CleanedBatches> {
  const { database, cutter } = parts;
  const found = await row<BatchRow>(
    database,
    `SELECT ${RECORD_COLUMNS} FROM batches WHERE id = $1`,
    [batchId],
  );
  const close = () => database.query(CLOSE, [scope.id, [batchId]]);
  if (found === undefined) {
    await close();
    return NONE;
  }
  let batch: SealedBatch;
  let items: readonly BatchItem[];
  try {
    batch = batchOf(recordIn(found));
    items = await cutter.items(batch);
  } catch {
    await close();
    return { ...NONE, unreadable: 1 };
  }
  const erased = await erasedItems(database, scope, items);
  const bytes = erased.reduce((sum, item) => sum + item.bytes, 0);
  if (erased.length === 0 || scope.isDryRun) await close();
  else {
    const positions = new Set(erased.map(({ position }) => position));
    const rest = await cutter.without(batch, positions);
    const contents = contentsOfErased(items, erased);
    await rewrite(parts, scope, { batch, rest, erased: { items: erased, contents } });
  }
  return { items: erased.length, bytes, unreadable: 0 };
}

export async function erasedItems(
  client: PostgresClient,
  { id, project, named }: ErasureScope,
  items: readonly BatchItem[],
): Promise<readonly BatchItem[]> {
  const traces = keysOf(items.flatMap(({ traceId }) => traceId ?? []));
  const unstored = keysOf(named === null ? [] : tracesNamed(items, named));
  if (unstored.length > 0) {
    await client.query(
      `INSERT INTO erasure_traces
       SELECT $1, k.key, true FROM unnest($3::bytea[]) AS k (key)
       WHERE NOT EXISTS (
         SELECT 1 FROM trace_keys s JOIN traces t ON t.n = s.n WHERE s.project = $2 AND s.key = k.key)
       ON CONFLICT DO NOTHING`,
      [id, project, unstored.map(bytesOfKey)],
    );
  }
  const listed = await rows<{ key: Buffer }>(
    client,
    'SELECT key FROM erasure_traces WHERE erasure = $1 AND key = ANY ($2::bytea[])',
    [id, traces.map(bytesOfKey)],
  );
  const lone = keysOf(items.flatMap((item) => (item.traceId === null ? (item.id ?? []) : [])));
  const runs =
    lone.length === 0
      ? []
      : await rows<{ key: Buffer }>(
          client,
          `SELECT o.key FROM observations o JOIN traces t ON t.n = o.trace
           JOIN erasure_traces e ON e.erasure = $1 AND e.key = t.key
           WHERE o.project = $2 AND o.key = ANY ($3::bytea[])
             AND substr(o.key, 1, 1) <> '\\x3a'::bytea`,
          [id, project, lone.map(bytesOfKey)],
        );
  const copies = items.flatMap(({ copy }) => copy ?? []);
  const repeated =
    copies.length === 0
      ? []
      : await rows<{ copy: string }>(
          client,
          // OFFSET keeps the planner from beginning with the traces.
          `SELECT DISTINCT g.copy FROM unnest($3::text[]) AS g (copy)
           CROSS JOIN LATERAL (
             SELECT trace FROM observations WHERE project = $2 AND copy = g.copy OFFSET 0) o
           JOIN traces t ON t.n = o.trace AND t.project = $2
           JOIN erasure_traces e ON e.erasure = $1 AND e.key = t.key`,
          [id, project, copies],
        );
  const repeatedRuns = new Set(repeated.map(({ copy }) => copy));
  const names = (found: readonly { readonly key: Buffer }[]): ReadonlySet<string> =>
    new Set(found.map(({ key }) => nameOfKey(keyOfBytes(key))));
  const [listedNames, runNames] = [names(listed), names(runs)];
  return items.filter(({ traceId, id: run, copy }) => {
    if (copy !== null && repeatedRuns.has(copy)) return true;
    return traceId === null
      ? run !== null && runNames.has(nameOfKey(keyOfId(run)))
      : listedNames.has(nameOfKey(keyOfId(traceId)));
  });
}

function keysOf(ids: readonly string[]): Key[] {
  return [...new Set(ids)].map(keyOfId);
}

type Rewriting = {
  readonly batch: SealedBatch;
  readonly rest: SealedBatch;
  readonly erased: ErasedPart;
};

async function rewrite(
  { database, onRemoved, onShrunk, now }: CleaningParts,
  { id }: ErasureScope,
  { batch, rest, erased }: Rewriting,
): Promise<void> {
  const record = recordOf(rest);
  const entries = await database.transaction(async (client) => {
    // Waits for writes of the batch that are under way: a later one sees the erased items.
    const locked = await row(client, 'SELECT 1 FROM batches WHERE id = $1 FOR UPDATE', [batch.id]);
    await client.query(CLOSE, [id, [batch.id]]);
    if (locked === undefined) return [];
    await client.query('UPDATE batches SET items = $2, positions = $3, body = $4 WHERE id = $1', [
      batch.id,
      ...[record[RECORD.ITEMS], record[RECORD.POSITIONS], record[RECORD.BODY]],
    ]);
    await noteErased(client, { id }, { ...erased, batch, now: now() });
    return shrinkEntries(client, batch.id, rest.items);
  });
  onRemoved({ bytes: Math.max(0, batch.body.length - rest.body.length) });
  onShrunk(batch.id, entries);
}

/** Counts the items, releases their attachments, and notes them for deliveries that are under way and for the answers that name them. */
export async function noteErased(
  client: PostgresTransaction,
  { id }: Pick<ErasureScope, 'id'>,
  erased: ErasedPart & { readonly batch: SealedBatch; readonly now: number },
): Promise<void> {
  const { batch, items, contents, now } = erased;
  const bytes = items.reduce((sum, item) => sum + item.bytes, 0);
  await client.query('UPDATE erasures SET bytes = bytes + $2 WHERE id = $1', [id, bytes]);
  if (contents.length > 0) {
    const hashes = contents.map((hash) => Buffer.from(hash, 'hex'));
    await client.query(...releaseStatement(batch.id, hashes));
  }
  const indexes = items.map(({ position }) => batch.positions?.[position] ?? position);
  const known = await row<{ positions: string }>(
    client,
    'SELECT positions FROM erased_items WHERE batch = $1 FOR UPDATE',
    [batch.id],
  );
  const before = known === undefined ? [] : (JSON.parse(known.positions) as number[]);
  await client.query(
    `INSERT INTO erased_items VALUES ($1, $2, $3)
     ON CONFLICT (batch) DO UPDATE SET positions = excluded.positions, erased_at = excluded.erased_at`,
    [batch.id, JSON.stringify([...before, ...indexes]), now],
  );
  if (now - batch.receivedAt >= ANSWERS_MS) return;
  const ids = new Set(items.flatMap((item) => (item.id === null ? [] : escapeText(item.id))));
  await client.query(
    'INSERT INTO erasure_items SELECT $1, unnest($2::text[]) ON CONFLICT DO NOTHING',
    [id, [...ids]],
  );
}

/** The message of a dead letter may repeat a text of an erased item. */
async function shrinkEntries(
  client: PostgresTransaction,
  batchId: string,
  left: number,
): Promise<readonly ShrunkEntry[]> {
  const shrunk: ShrunkEntry[] = [];
  for (const [table, message] of [
    ['queue_entries', ''],
    ['queue_dead_letters', ", message = 'an item was erased'"],
  ] as const) {
    const found = await rows<{ branch: number; items: number }>(
      client,
      `SELECT branch, items FROM ${table} WHERE batch_id = $1 FOR UPDATE`,
      [batchId],
    );
    if (found.length === 0) continue;
    if (left === 0) await client.query(`DELETE FROM ${table} WHERE batch_id = $1`, [batchId]);
    else {
      await client.query(
        `UPDATE ${table} SET items = least(items, $2)${message} WHERE batch_id = $1`,
        [batchId, left],
      );
    }
    for (const { branch, items } of found) {
      const gone = Math.max(0, items - left);
      const wasDead = table === 'queue_dead_letters';
      shrunk.push({ branch, items: gone, wasDead, isGone: left === 0 });
    }
  }
  return shrunk;
}
