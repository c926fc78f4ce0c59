import type { Steps } from '../../../src/component/background.ts';
import { repeat } from '../../../src/component/background.ts';
import type { Clock } from '../../../src/component/component.ts';
import type { SealedBatch } from '../../../src/model/batch.ts';
import { batchOf, RECORD } from '../../../src/queue/record.ts';
import type { Database } from '../../../src/sqlite/database.ts';
import { sweepParts } from '../../../src/sqlite/queue/project-removal.ts';
import type { WalkedPage } from '../../../src/sqlite/queue/removal-operations.ts';
import type { WaitingPage, WaitingPlace } from '../../../src/sqlite/queue/shrinking.ts';
import type { SqliteQueueStorage } from '../../../src/sqlite/queue/storage.ts';
import { sweepAttachments } from '../../../src/store/attachments.ts';
import type { ErasedInFlight } from '../../../src/store/erasing/in-flight.ts';
import type { BatchItem } from '../../../src/store/erasing/items.ts';
import { tracedItems, withoutItems } from '../../../src/store/erasing/items.ts';
import type {
  CleanedBatches,
  ErasedPart,
  ErasingTables,
  ErasureScope,
  Stepping,
} from '../../../src/store/erasing/tables.ts';
import type { RemovalCounters } from '../../../src/store/removals.ts';
import type { Key } from '../../../src/store/rows/observation-row.ts';
import { keyOfId } from '../../../src/store/rows/observation-row.ts';
import { sqliteAttachmentSweep } from '../attachments/attachments.ts';
import { HIDDEN } from '../batches/purge-operations.ts';
import { reportBatches } from '../batches/removed-batches.ts';
import type { StoreOperations } from '../operations.ts';
import type { SqliteSearch } from '../search/search.ts';
import { foldWaiting } from '../traces/rollup-folding.ts';
import type { CleanedBatch, CleaningStep } from './clean-operations.ts';
import type { LargeTrace } from './erasure-operations.ts';
import { cutExpired } from './expired.ts';

/** The answers of requests are kept for a day; ids of older items are in none of them. */
const ANSWERS_MS = 25 * 3_600_000;
const EVERYTHING = Number.MAX_SAFE_INTEGER;

export type SqliteErasingParts = {
  readonly database: Database<StoreOperations>;
  readonly queues: SqliteQueueStorage;
  readonly inFlight: ErasedInFlight;
  readonly removed: RemovalCounters;
  readonly texts: Pick<SqliteSearch, 'purge'>;
  readonly clock: Clock;
};

export function sqliteErasingTables(parts: SqliteErasingParts): ErasingTables {
  const { database } = parts;
  const { write, read, search } = database;
  return {
    add: (...args) => write('erasing.add', args),
    blocks: (now) => search('erasing.blocks', [now]),
    get: async (...args) => (await read('erasing.get', args)) ?? undefined,
    list: (...args) => search('erasing.list', args),
    open: () => read('erasing.open', []),
    save: (id, record) => write('erasing.save', [{ id, record }]),
    end: (id, record, counts, change) => write('erasing.end', [{ ...counts, id, record }, change]),
    hasUnstored: ({ project, until }) => search('erasing.hasUnstored', [project, until]),
    addTraces: (scope, keys) => addTraces(database, scope, keys),
    addWaiting: (scope) => addWaiting(database, scope),
    itemsOf: async (batch) => tracedItems(batch),
    belonging: (scope, items) => belonging(database, scope, items),
    without: async (batch, positions) => withoutItems(batch, positions),
    noteErased: (scope, batch, erased) => noteErased(parts, scope, batch, erased),
    clean: (scope) => clean(parts, scope),
    removeTraces: (scope) => removeTraces(parts, scope),
    keys: (...args) => search('erasing.keys', args),
    removeBatches: (scope) => removeBatches(parts, scope),
    cleanAnswers: (scope) => cleanAnswers(database, scope),
    sweep: (scope) => sweep(parts, scope),
    forget: (id) => repeat(() => write('erasing.forget', [id])),
    copies: [
      ...['file_exporter', 'downstream', 'backups', 'redis_log', 'salvaged_files'],
      // `secure_delete` overwrites a row in its last place. SQLite may leave a copy where it moved a row from.
      'unused_space',
    ],
  };
}

async function* addTraces(
  database: Database<StoreOperations>,
  { id, project, until }: ErasureScope,
  keys: readonly Key[],
): Stepping<{ traces: number; observations: number }> {
  const args = [id, project, keys, until] as const;
  const { traces, observations, large } = await database.write('erasing.addTraces', [...args]);
  yield;
  for (let left: LargeTrace[] = large; left.length > 0; ) {
    const [next, ...others] = left;
    if (next === undefined) break;
    left = [...others, ...(await database.write('erasing.addBatchesOf', [id, project, next]))];
    yield;
  }
  return { traces, observations };
}

async function* addWaiting(
  database: Database<StoreOperations>,
  { id, project, until }: ErasureScope,
): Steps {
  let place: WaitingPlace | null = null;
  do {
    const step: WaitingPage = await database.search('queue.waiting', [project, until, place]);
    if (step.found.length > 0) await database.write('erasing.addBatches', [id, step.found]);
    place = step.next;
    yield;
  } while (place !== null);
}

async function belonging(
  database: Database<StoreOperations>,
  { id, project, named }: ErasureScope,
  items: readonly BatchItem[],
): Promise<readonly BatchItem[]> {
  const { erased, unstored } = await database.search('erasing.belonging', [
    id,
    project,
    items,
    named,
  ]);
  if (unstored.length > 0) await database.write('erasing.addUnstored', [id, unstored]);
  return erased;
}

async function noteErased(
  { database, inFlight, clock }: SqliteErasingParts,
  { id }: ErasureScope,
  { id: batchId, receivedAt, positions }: SealedBatch,
  { items, contents }: ErasedPart,
): Promise<void> {
  inFlight.add(
    batchId,
    items.map(({ position }) => positions?.[position] ?? position),
  );
  const bytes = items.reduce((sum, item) => sum + item.bytes, 0);
  await database.write('erasing.note', [id, batchId, contents, bytes]);
  if (clock.now() - receivedAt >= ANSWERS_MS) return;
  await database.write('erasing.addItems', [id, items.flatMap((item) => item.id ?? [])]);
}

async function* clean(parts: SqliteErasingParts, scope: ErasureScope): Stepping<CleanedBatches> {
  const { database } = parts;
  const { id, named, isDryRun } = scope;
  const sum = { items: 0, bytes: 0, unreadable: 0 };
  for (let after: number | null = 0; after !== null; ) {
    const step: CleaningStep = await database.search('erasing.clean', [id, after, named]);
    const { found } = step;
    after = step.next;
    sum.unreadable += step.unreadable;
    const closed = [...step.without, ...(found !== null && isDryRun ? [found.seq] : [])];
    if (closed.length > 0) await database.write('erasing.cleaned', [id, closed]);
    if (found !== null) {
      sum.items += found.indexes.length;
      sum.bytes += found.bytes;
      if (found.unstored.length > 0) {
        await database.write('erasing.addUnstored', [id, found.unstored]);
      }
      if (!isDryRun) await rewrite(parts, scope, found);
    }
    yield;
  }
  return sum;
}

async function rewrite(
  { database, queues, inFlight, removed, clock }: SqliteErasingParts,
  { id }: ErasureScope,
  { seq, record, batchId, indexes, ids, contents, bytes, freed }: CleanedBatch,
): Promise<void> {
  const rest = batchOf(record);
  if (ids.length > 0 && clock.now() - rest.receivedAt < ANSWERS_MS) {
    await database.write('erasing.addItems', [id, ids]);
  }
  // First, so that no delivery under way stores the items again.
  inFlight.add(batchId, indexes);
  await queues.largeBodies.store(rest, async (stored, parts) => {
    const weight = stored[RECORD.BODY].byteLength;
    const args = [id, seq, stored, parts, { bytes, contents }] as const;
    const shrunk = await database.write('erasing.rewrite', [...args], { weight });
    if (shrunk === null) return;
    queues.shrink(shrunk);
    removed('erasure')({ bytes: freed });
  });
}

async function* removeTraces(
  { database, removed }: SqliteErasingParts,
  { id, project, named }: ErasureScope,
): Stepping<boolean> {
  const keys = (named?.users === null ? (named.ids ?? []) : []).map(keyOfId);
  if (keys.length > 0) await database.write('erasing.removeScores', [project, keys]);
  for (;;) {
    const step = await database.write('erasing.remove', [id, project]);
    removed('erasure')({ traces: step.traces, observations: step.observations });
    yield;
    if (step.needsCleaning) return false;
    if (!step.hasMore) break;
  }
  yield* repeat(async () => (await database.write('purge.traces', [HIDDEN, EVERYTHING])).hasMore);
  return true;
}

async function* removeBatches(parts: SqliteErasingParts, { project }: ErasureScope): Steps {
  const { database, queues, removed } = parts;
  // No query finds the traces that retention has removed, so it cannot tell whose items are left of them.
  yield* cutExpired(parts, project);
  yield* repeat(async () => {
    const step = await database.write('purge.batches', []);
    queues.forget(step.removed, 'erasure');
    reportBatches(step.removed, removed('erasure'));
    return step.hasMore;
  });
}

async function* sweep({ database, texts }: SqliteErasingParts, { project }: ErasureScope): Steps {
  yield* sweepAttachments(sqliteAttachmentSweep(database, project), null);
  yield* foldWaiting(database, project);
  yield* sweepParts(database);
  yield* texts.purge();
  while (!(await database.truncateLog())) yield;
}

async function* cleanAnswers(
  database: Database<StoreOperations>,
  { id, project }: ErasureScope,
): Steps {
  let after: Uint8Array | null = new Uint8Array(0);
  while (after !== null) {
    const { found, next }: WalkedPage<Uint8Array, Uint8Array> = await database.search(
      'removal.answersOf',
      [project, after],
    );
    if (found.length > 0) await database.write('erasing.cleanAnswers', [id, found]);
    after = next;
    yield;
  }
  let from: number | null = 0;
  while (from !== null) {
    const { found, next }: WalkedPage<number, number> = await database.search('recent.ofProject', [
      project,
      from,
    ]);
    if (found.length > 0) await database.write('erasing.cleanRecent', [id, found]);
    from = next;
    yield;
  }
}
