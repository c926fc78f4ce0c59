import type { ObservationBatch, SealedBatch } from '../../../src/model/batch.ts';
import { PermanentError } from '../../../src/model/errors.ts';
import type { BatchRecord } from '../../../src/queue/record.ts';
import { batchOf, RECORD, recordOf } from '../../../src/queue/record.ts';
import type { Database } from '../../../src/sqlite/database.ts';
import type { WrittenParts } from '../../../src/sqlite/queue/part-operations.ts';
import type { SqliteQueueStorage } from '../../../src/sqlite/queue/storage.ts';
import { contentsLeftOut } from '../../../src/store/attachments.ts';
import type { ChangeFeed } from '../../../src/store/changes.ts';
import type { ErasureBlocks } from '../../../src/store/erasing/blocks.ts';
import type { ErasedInFlight } from '../../../src/store/erasing/in-flight.ts';
import { cutIndexes } from '../../../src/store/erasing/in-flight.ts';
import type { Look, TraceScope } from '../../../src/store/plan/step.ts';
import type { BatchRows } from '../../../src/store/rows/batch-rows.ts';
import { positionsOf, rowsOf } from '../../../src/store/rows/batch-rows.ts';
import { linePage } from '../../../src/store/rows/line-page.ts';
import { keyOfId, observationKey } from '../../../src/store/rows/observation-row.ts';
import { countedPage } from '../../../src/store/rows/observed-values.ts';
import type { FoundRows } from '../../../src/store/rows/page.ts';
import { pageOfRows } from '../../../src/store/rows/page.ts';
import { cursorOf, placeOfCursor, placeOfRow } from '../../../src/store/rows/place.ts';
import { idOfTrace, observationOf, traceOf } from '../../../src/store/rows/stored.ts';
import { lookOf, placeOfTrace, traceInId, tracePage } from '../../../src/store/rows/trace-page.ts';
import { treePage } from '../../../src/store/rows/tree.ts';
import type {
  LinePage,
  Page,
  RowCursors,
  StoredObservation,
  StoredTrace,
  TraceSource,
  TraceStore,
  TreePage,
} from '../../../src/store/store.ts';
import type { TermMetrics } from '../../../src/store/term-metrics.ts';
import type { Retention } from '../../../src/tenancy/retention.ts';
import type { StoreOperations } from '../operations.ts';
import type { Posting } from './posting-rounds.ts';
import type { SourceRow, StoredRow } from './read-operations.ts';
import type { RollupFolding } from './rollup-folding.ts';
import type { Summarizing } from './summarizing.ts';
import type { WrittenTraces } from './write-operations.ts';

/** The weight of a row in its group: the bytes of a body that take as long to write. */
const ROW_WEIGHT = 4096;
/** Rows of one call: a bound on how long a large batch delays other calls. */
const CALL_ROWS = 200;
const NO_BYTES = new Uint8Array(0);

type StoreDatabase = Database<StoreOperations>;
type Queues = Pick<SqliteQueueStorage, 'usage' | 'largeBodies'>;

export type SqliteTracesParts = {
  readonly database: StoreDatabase;
  readonly queues: Queues;
  readonly retention: Pick<Retention, 'since'>;
  readonly summaries: Pick<Summarizing, 'wake'>;
  readonly terms: Pick<TermMetrics, 'leftOut'>;
  readonly inFlight: ErasedInFlight;
  readonly changes: ChangeFeed;
  readonly rollups: Pick<RollupFolding, 'wake'>;
  readonly postings: Pick<Posting, 'wake'>;
  readonly texts: { wake(): void };
  readonly blocks: Pick<ErasureBlocks, 'left'>;
  /** The time before which a trace without an end is interrupted. */
  staleBefore(): number;
};

export function sqliteTraces(parts: SqliteTracesParts): TraceStore {
  const { database, retention, staleBefore } = parts;
  // Readers lose an expired trace at once, removed or not.
  const scopeOf = (project: string): TraceScope => ({ project, since: retention.since(project) });
  const observationOfRow = (scope: TraceScope): ((row: StoredRow) => StoredObservation) => {
    const before = staleBefore();
    return (stored) => storedOf(scope, stored, before);
  };
  return {
    write: (batch) => writeLeft(parts, batch),
    async listTraces(projectId, filter) {
      const look = lookOf(filter, staleBefore());
      const found = await database.search('traces.list', [scopeOf(projectId), look]);
      return tracePage(found, look.staleBefore);
    },
    async getTrace(projectId, traceId) {
      const row = await database.search('traces.get', [scopeOf(projectId), keyOfId(traceId)]);
      return row === null ? undefined : traceOf(row, staleBefore());
    },
    findMatching: (projectId, query, ids) =>
      findMatching(database, scopeOf(projectId), query, ids, staleBefore()),
    async listObservations(projectId, traceId, { limit, cursor }) {
      const scope = scopeOf(projectId);
      const after = placeOfCursor(cursor);
      const found = await database.search('traces.observations', [
        scope,
        keyOfId(traceId),
        after,
        limit,
      ]);
      return pageOfRows(found, ({ n, row }) => placeOfRow(n, row), observationOfRow(scope));
    },
    listSources: (projectId, traceId, page) =>
      listSources(database, scopeOf(projectId), traceId, page, observationOfRow),
    listTree: (projectId, traceId, page) =>
      listTree(database, scopeOf(projectId), traceId, page, staleBefore()),
    async getRoot(projectId, traceId) {
      const scope = scopeOf(projectId);
      const root = await database.search('observations.root', [scope, keyOfId(traceId)]);
      return root === null ? undefined : observationOfRow(scope)(root);
    },
    listTraceIds: (projectId, beginning, limit) =>
      database.search('traces.idsFrom', [scopeOf(projectId), beginning, limit]),
    async getObservation(projectId, id, traceId) {
      const scope = scopeOf(projectId);
      const stored = await getObservation(database, scope, id, traceId);
      if (stored === null) return undefined;
      return Object.assign(observationOfRow(scope)(stored), { events: stored.events });
    },
    async listObservationsOf(projectId, traceIds, limit) {
      const scope = scopeOf(projectId);
      const keys = traceIds.map(keyOfId);
      const found = await database.search('traces.observationsOf', [scope, keys, limit]);
      return pageOfRows(found, ({ n, row }) => placeOfRow(n, row), observationOfRow(scope));
    },
    async listSourcesOf(projectId, traceIds, limit) {
      const scope = scopeOf(projectId);
      const keys = traceIds.map(keyOfId);
      const found = await database.search('traces.sourcesOf', [scope, keys, limit]);
      return pageOfSources(found, observationOfRow(scope));
    },
    listLinesOf: (projectId, traceIds, page) =>
      listLinesOf(database, scopeOf(projectId), traceIds, page, staleBefore()),
    async countValues(projectId, field, filter) {
      const look = lookOf(filter, staleBefore());
      return countedPage(await database.search('traces.values', [scopeOf(projectId), field, look]));
    },
    rowCursors: (projectId, traceId, observationId) =>
      rowCursors(database, scopeOf(projectId), traceId, observationId),
    async getBatches(projectId, ids) {
      const records = await database.search('batches.get', [scopeOf(projectId), ids]);
      return records.map(batchOf);
    },
    batchStamps: async (projectId, ids) =>
      new Map(await database.search('batches.stamps', [scopeOf(projectId), ids])),
  };
}

async function listSources(
  database: StoreDatabase,
  scope: TraceScope,
  traceId: string,
  { limit, cursor }: { limit: number; cursor?: string },
  observationOfRow: (scope: TraceScope) => (row: StoredRow) => StoredObservation,
): Promise<Page<TraceSource>> {
  const after = placeOfCursor(cursor);
  const found = await database.search('traces.sources', [scope, keyOfId(traceId), after, limit]);
  return pageOfSources(found, observationOfRow(scope));
}

async function listLinesOf(
  database: StoreDatabase,
  scope: TraceScope,
  traceIds: readonly string[],
  { limit, cursor }: { limit: number; cursor?: string },
  before: number,
): Promise<LinePage> {
  const lines = { after: placeOfCursor(cursor), limit, staleBefore: before };
  const found = await database.search('traces.linesOf', [scope, traceIds.map(keyOfId), lines]);
  return linePage(found, traceIds);
}

function pageOfSources(
  found: FoundRows<SourceRow>,
  observationOf: (row: StoredRow) => StoredObservation,
): Page<TraceSource> {
  return pageOfRows(
    found,
    ({ n, row }) => placeOfRow(n, row),
    (source) => ({ observation: observationOf(source), events: source.events }),
  );
}

async function listTree(
  database: StoreDatabase,
  scope: TraceScope,
  traceId: string,
  { limit, cursor, hasText }: { limit: number; cursor?: string; hasText: boolean },
  staleBefore: number,
): Promise<TreePage> {
  const tree = { traceId, after: placeOfCursor(cursor), limit, staleBefore, hasText };
  return treePage(await database.search('traces.tree', [scope, tree]));
}

async function findMatching(
  database: StoreDatabase,
  scope: TraceScope,
  query: Look['query'],
  ids: readonly string[],
  before: number,
): Promise<StoredTrace[]> {
  if (ids.length === 0) return [];
  const rows = await database.search('traces.match', [scope, query, ids, before]);
  return rows.map((row) => traceOf(row, before));
}

/** Writes what erasures and blocks leave of a batch, and releases the attachments of the rest. */
async function writeLeft(parts: SqliteTracesParts, batch: ObservationBatch): Promise<void> {
  const left = parts.inFlight.left(parts.blocks.left(batch));
  await write(parts, left);
  if (left === batch) return;
  const contents = contentsLeftOut(batch.observations, left.observations);
  if (contents.length > 0) {
    await parts.database.write('attachments.release', [batch.source.id, contents]);
  }
}

/** Writes a batch in calls of bounded length. After a crash between two calls, repeating the first changes nothing. */
async function write(parts: SqliteTracesParts, batch: ObservationBatch): Promise<void> {
  let rest = batch;
  let positions = positionsOf(rest.source);
  while (rest.observations.length > 0) {
    const { source, observations } = rest;
    const some = observations.slice(0, CALL_ROWS);
    const isWritten = await writeRows(parts, source, rowsOf(source, some, positions));
    // An erasure may have cut items out of the batch in between.
    rest = parts.inFlight.left({
      ...rest,
      observations: isWritten ? observations.slice(CALL_ROWS) : observations,
    });
    if (rest.source !== source) positions = positionsOf(rest.source);
  }
}

/** Resolves with false, and has written nothing, if items were cut out of the stored batch. */
async function writeRows(
  parts: SqliteTracesParts,
  source: SealedBatch,
  rows: BatchRows,
): Promise<boolean> {
  // Without the record first: if the batch comes from the store's own queue, the store has it.
  const known = { record: null, usageAt: source.receivedAt, bodyParts: null };
  const written = await writeCall(parts, source, rows, known);
  if (written.state === 'written') return true;
  if (written.state === 'cut') {
    // A copy that waited elsewhere, such as a dead letter of days ago.
    parts.inFlight.add(source.id, cutIndexes(source, written.gaps));
    return false;
  }
  return writeWithBatch(parts, source, rows);
}

/** The same for a batch that the store does not have: stores it, with its usage. */
async function writeWithBatch(
  parts: SqliteTracesParts,
  source: SealedBatch,
  rows: BatchRows,
): Promise<boolean> {
  const { inFlight, queues } = parts;
  const { usage, largeBodies } = queues;
  const usageAt = usage.entering(source);
  let bodyParts: WrittenParts | null = null;
  try {
    if (largeBodies.isLarge(source)) {
      bodyParts = await largeBodies.write(source);
      if (bodyParts === null) throw projectDeleted(source.tenant.projectId);
    }
    // The record has the items that an erasure has cut out since.
    if (inFlight.isCut(source)) {
      usage.entered(source.id, 'failed');
      return false;
    }
    const record = bodyParts === null ? recordOf(source) : recordOf(source, NO_BYTES);
    const written = await writeCall(parts, source, rows, { record, usageAt, bodyParts });
    const isCounted = written.state === 'written' && written.isCounted;
    usage.entered(source.id, isCounted ? 'written' : 'known');
    // False if another delivery has stored the batch in between, and it was cut: the caller begins again.
    return written.state === 'written';
  } catch (error) {
    usage.entered(source.id, 'failed');
    throw error;
  } finally {
    if (bodyParts !== null) await largeBodies.end(source.tenant.projectId, bodyParts.numbers);
  }
}

type StoredWith = {
  /** Null if the store should have the batch. */
  readonly record: BatchRecord | null;
  readonly usageAt: number;
  readonly bodyParts: WrittenParts | null;
};

async function writeCall(
  { database, retention, summaries, terms, rollups, postings, changes, texts }: SqliteTracesParts,
  source: SealedBatch,
  { traces, updates, children, attachments, count }: BatchRows,
  { record, usageAt, bodyParts }: StoredWith,
): Promise<WrittenTraces> {
  const project = source.tenant.projectId;
  const written = await database.write(
    'traces.write',
    [
      {
        project,
        keyId: source.tenant.keyId,
        batchId: source.id,
        receivedAt: source.receivedAt,
        traces,
        updates,
        children,
        attachments,
        usageAt,
        parts: bodyParts,
        namesTraces: changes.isWatched(project),
        since: retention.since(project),
        gaps: source.gaps ?? [],
      },
      record,
    ],
    { weight: count * ROW_WEIGHT + (record?.[RECORD.BODY].byteLength ?? 0) },
  );
  if (written.state === 'project deleted') throw projectDeleted(project);
  if (written.state !== 'written') return written;
  if (!written.isSummarized) summaries.wake();
  terms.leftOut(written.unindexedTerms);
  changes.publish(project, written.traceIds);
  rollups.wake();
  postings.wake();
  texts.wake();
  return written;
}

function projectDeleted(projectId: string): PermanentError {
  return new PermanentError('project_deleted', `the project ${projectId} was deleted`);
}

async function rowCursors(
  database: StoreDatabase,
  scope: TraceScope,
  traceId: string,
  observationId: string | undefined,
): Promise<RowCursors | undefined> {
  const traceKey = keyOfId(traceId);
  const row = await database.search('traces.get', [scope, traceKey]);
  if (row === null) return undefined;
  const trace = cursorOf(placeOfTrace(row));
  if (observationId === undefined) return { trace, observation: null };
  const keys = [traceKey, observationKey(traceId, observationId)] as const;
  const found = await database.search('observations.inTrace', [scope, ...keys]);
  return found === null
    ? undefined
    : { trace, observation: cursorOf(placeOfRow(found.n, found.row)) };
}

async function getObservation(
  database: StoreDatabase,
  scope: TraceScope,
  id: string,
  traceId: string | undefined,
): Promise<SourceRow | null> {
  const inTrace = (trace: string): Promise<SourceRow | null> => {
    const keys = [keyOfId(trace), observationKey(trace, id)] as const;
    return database.search('observations.inTrace', [scope, ...keys]);
  };
  if (traceId !== undefined) return inTrace(traceId);
  const named = traceInId(id);
  if (named !== undefined) {
    const found = await inTrace(named);
    if (found !== null) return found;
  }
  return database.search('observations.anywhere', [scope, keyOfId(id)]);
}

function storedOf(
  { project: projectId }: TraceScope,
  stored: StoredRow,
  staleBefore: number,
): StoredObservation {
  const { row, state, traceKey, traceLongId, newestMs, payload } = stored;
  const traceId = idOfTrace(traceKey, traceLongId);
  return observationOf({ projectId, traceId, newestMs, staleBefore }, row, state, payload);
}
