import { batchOf } from '../../../src/queue/record.ts';
import { ErasureBlocks } from '../../../src/store/erasing/blocks.ts';
import type { Dialect } from '../../../src/store/plan/dialect.ts';
import type { LineRow } from '../../../src/store/rows/line-page.ts';
import { linePage, packLines } from '../../../src/store/rows/line-page.ts';
import type { LineMaker } from '../../../src/store/rows/observation-line.ts';
import { lineMaker } from '../../../src/store/rows/observation-line.ts';
import { keyOfId, observationKey } from '../../../src/store/rows/observation-row.ts';
import { countedPage } from '../../../src/store/rows/observed-values.ts';
import type { FoundRows } from '../../../src/store/rows/page.ts';
import { pageOfRows } from '../../../src/store/rows/page.ts';
import { cursorOf, placeOfCursor, placeOfRow } from '../../../src/store/rows/place.ts';
import { traceOf } from '../../../src/store/rows/stored.ts';
import { lookOf, placeOfTrace, traceInId, tracePage } from '../../../src/store/rows/trace-page.ts';
import { packTree, treePage } from '../../../src/store/rows/tree.ts';
import type {
  LinePage,
  Page,
  RowCursors,
  StoredObservation,
  TraceSource,
  TraceStore,
  TreePage,
} from '../../../src/store/store.ts';
import { releaseStatement } from '../attachments/attachments.ts';
import type { PostgresClient } from '../connection/statement.ts';
import type { StoreDatabase } from '../database.ts';
import { withoutErased } from '../erasing/in-flight.ts';
import type { GroupBound } from '../grouping.ts';
import { postgresDialect } from './dialect.ts';
import { groupedWrites } from './grouped-writes.ts';
import type { LineCells } from './packed-reading.ts';
import { findLines, findTree } from './packed-reading.ts';
import type { ScopeValues } from './reading.ts';
import * as queries from './reading.ts';
import { timed } from './step-reading.ts';
import { countValues } from './value-reading.ts';

/** Readers find no trace whose newest event is older (milliseconds since the epoch), removed or not. */
export type RetentionWindows = { since(projectId: string): number };

/** The environment of the answers of the read API. */
export type Reading = {
  readonly client: PostgresClient;
  /** Depends on whether the store searches payloads. */
  readonly dialect: Dialect;
  /** The time before which a trace without an end is interrupted. */
  staleBefore(): number;
  now(): number;
};

/** `groups`: how long a group of writes may take. */
export function postgresTraces(
  database: StoreDatabase,
  retention: RetentionWindows,
  groups: Omit<GroupBound, 'name'>,
  { client: reading, dialect, staleBefore, now }: Reading = {
    ...{ client: database, dialect: postgresDialect, staleBefore: () => 0, now: () => 0 },
  },
  blocks = new ErasureBlocks(() => 0),
): TraceStore {
  const writes = groupedWrites({ database, retention }, groups);
  const scopeOf = (projectId: string): ScopeValues => [projectId, retention.since(projectId)];
  const pageOf = (found: FoundRows<queries.FoundObservation>): Page<StoredObservation> => {
    const before = staleBefore();
    return pageOfRows(
      found,
      ({ place }) => place,
      ({ observation }) => observation(before),
    );
  };
  const pageOfSources = (found: FoundRows<queries.FoundObservation>): Page<TraceSource> => {
    const before = staleBefore();
    return pageOfRows(
      found,
      ({ place }) => place,
      (source) => ({ observation: source.observation(before), events: source.events() }),
    );
  };
  return {
    write: withoutErased(writes, blocks, (...released) => release(database, ...released)),
    async listTraces(projectId, filter) {
      const look = lookOf(filter, staleBefore());
      const scope = scopeOf(projectId);
      const step = await timed(now, () => queries.findTraces(reading, dialect, scope, look));
      return tracePage(step, look.staleBefore);
    },
    async getTrace(projectId, traceId) {
      const row = await queries.findTrace(reading, scopeOf(projectId), keyOfId(traceId));
      return row === undefined ? undefined : traceOf(row, staleBefore());
    },
    async findMatching(projectId, query, ids) {
      if (ids.length === 0) return [];
      const look = { query, ids, staleBefore: staleBefore() };
      const found = await queries.findMatching(reading, dialect, scopeOf(projectId), look);
      return found.map((row) => traceOf(row, look.staleBefore));
    },
    async listObservations(projectId, traceId, { limit, cursor }) {
      const range = { after: placeOfCursor(cursor), limit };
      const scope = scopeOf(projectId);
      return pageOf(await queries.findObservations(reading, scope, keyOfId(traceId), range));
    },
    async listSources(projectId, traceId, { limit, cursor }) {
      const range = { after: placeOfCursor(cursor), limit };
      const scope = scopeOf(projectId);
      return pageOfSources(await queries.findObservations(reading, scope, keyOfId(traceId), range));
    },
    listTree: (projectId, traceId, page) =>
      listTree(reading, scopeOf(projectId), traceId, page, staleBefore()),
    async listObservationsOf(projectId, traceIds, limit) {
      const keys = traceIds.map(keyOfId);
      return pageOf(await queries.findObservationsOf(reading, scopeOf(projectId), keys, limit));
    },
    async listSourcesOf(projectId, traceIds, limit) {
      const keys = traceIds.map(keyOfId);
      const scope = scopeOf(projectId);
      return pageOfSources(await queries.findObservationsOf(reading, scope, keys, limit));
    },
    listLinesOf: (projectId, traceIds, page) =>
      listLinesOf(reading, scopeOf(projectId), traceIds, page, staleBefore()),
    async countValues(project, field, filter) {
      const scope = { project, since: retention.since(project) };
      const look = lookOf(filter, staleBefore());
      return countedPage(
        await timed(now, () => countValues({ client: reading, dialect }, scope, field, look)),
      );
    },
    rowCursors: (projectId, traceId, observationId) =>
      rowCursors(reading, scopeOf(projectId), traceId, observationId),
    async getRoot(projectId, traceId) {
      const found = await queries.findRoot(reading, scopeOf(projectId), keyOfId(traceId));
      return found?.observation(staleBefore());
    },
    listTraceIds: (projectId, beginning, limit) =>
      queries.findTraceIds(reading, scopeOf(projectId), beginning, limit),
    async getObservation(projectId, id, traceId) {
      const found = await getObservation(reading, scopeOf(projectId), id, traceId);
      return found && Object.assign(found.observation(staleBefore()), { events: found.events() });
    },
    async getBatches(projectId, ids) {
      return (await queries.findBatches(reading, scopeOf(projectId), ids)).map(batchOf);
    },
    batchStamps: (projectId, ids) => queries.findStamps(reading, scopeOf(projectId), ids),
  };
}

async function release(
  client: PostgresClient,
  ...released: Parameters<typeof releaseStatement>
): Promise<void> {
  await client.query(...releaseStatement(...released));
}

async function listTree(
  reading: PostgresClient,
  scope: ScopeValues,
  traceId: string,
  { limit, cursor, hasText }: { limit: number; cursor?: string; hasText: boolean },
  staleBefore: number,
): Promise<TreePage> {
  const range = { after: placeOfCursor(cursor), limit };
  const found = await findTree(reading, scope, keyOfId(traceId), range);
  return treePage(packTree(found, traceId, staleBefore, hasText));
}

async function listLinesOf(
  reading: PostgresClient,
  scope: ScopeValues,
  traceIds: readonly string[],
  { limit, cursor }: { limit: number; cursor?: string },
  staleBefore: number,
): Promise<LinePage> {
  const [projectId] = scope;
  const range = { after: placeOfCursor(cursor), limit };
  const found = await findLines(reading, scope, traceIds.map(keyOfId), range);
  return linePage(packLines(linesIn(found, traceIds, projectId, staleBefore), limit), traceIds);
}

function* linesIn(
  found: Iterable<LineCells>,
  traceIds: readonly string[],
  projectId: string,
  staleBefore: number,
): Generator<LineRow> {
  const makers = new Map<number, LineMaker>();
  for (const cells of found) {
    const { n, trace, newestMs, row } = cells;
    const traceId = traceIds[trace] ?? '';
    const known = makers.get(trace);
    const lineOf = known ?? lineMaker({ projectId, traceId, newestMs, staleBefore });
    if (known === undefined) makers.set(trace, lineOf);
    yield { trace, place: placeOfRow(n, row), line: lineOf(row, cells) };
  }
}

async function rowCursors(
  reading: PostgresClient,
  scope: ScopeValues,
  traceId: string,
  observationId: string | undefined,
): Promise<RowCursors | undefined> {
  const traceKey = keyOfId(traceId);
  const row = await queries.findTrace(reading, scope, traceKey);
  if (row === undefined) return undefined;
  const trace = cursorOf(placeOfTrace(row));
  if (observationId === undefined) return { trace, observation: null };
  const key = observationKey(traceId, observationId);
  const found = await queries.findInTrace(reading, scope, traceKey, key);
  return found && { trace, observation: cursorOf(found.place) };
}

async function getObservation(
  reading: PostgresClient,
  scope: ScopeValues,
  id: string,
  traceId: string | undefined,
): Promise<queries.FoundObservation | undefined> {
  const inTrace = (trace: string) =>
    queries.findInTrace(reading, scope, keyOfId(trace), observationKey(trace, id));
  if (traceId !== undefined) return inTrace(traceId);
  const named = traceInId(id);
  if (named !== undefined) {
    const found = await inTrace(named);
    if (found !== undefined) return found;
  }
  return queries.findAnywhere(reading, scope, keyOfId(id));
}
