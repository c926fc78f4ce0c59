import { batchOf } from '../../../src/queue/record.ts';
import { keyOfId, observationKey } from '../../../src/store/rows/observation-row.ts';
import { pageOfRows } from '../../../src/store/rows/page.ts';
import { placeOfCursor } from '../../../src/store/rows/place.ts';
import { traceOf } from '../../../src/store/rows/stored.ts';
import { traceInId, tracePage } from '../../../src/store/rows/trace-page.ts';
import type {
  Page,
  StoredObservation,
  StoredTrace,
  TraceFilter,
  TraceStore,
} from '../../../src/store/store.ts';
import type { StoreDatabase } from '../database.ts';
import { groupedWrites } from './groups.ts';
import type { ScopeValues } from './reading.ts';
import * as reading from './reading.ts';

/** Readers find no trace whose newest event is older (milliseconds since the epoch), removed or not. */
export type RetentionWindows = { since(projectId: string): number };

export function postgresTraces(database: StoreDatabase, retention: RetentionWindows): TraceStore {
  const scopeOf = (projectId: string): ScopeValues => [projectId, retention.since(projectId)];
  return {
    write: groupedWrites(database),
    listTraces: (projectId, filter) => listTraces(database, scopeOf(projectId), filter),
    async getTrace(projectId, traceId) {
      const row = await reading.findTrace(database, scopeOf(projectId), keyOfId(traceId));
      return row === undefined ? undefined : traceOf(row);
    },
    listObservations: (projectId, traceId, page) =>
      listObservations(database, scopeOf(projectId), traceId, page),
    getObservation: (projectId, id, traceId) =>
      getObservation(database, scopeOf(projectId), id, traceId),
    async getBatches(projectId, ids) {
      return (await reading.findBatches(database, scopeOf(projectId), ids)).map(batchOf);
    },
  };
}

async function listTraces(
  database: StoreDatabase,
  scope: ScopeValues,
  filter: TraceFilter,
): Promise<Page<StoredTrace>> {
  const before = placeOfCursor(filter.cursor);
  return tracePage(await reading.findTraces(database, scope, filter, before));
}

async function listObservations(
  database: StoreDatabase,
  scope: ScopeValues,
  traceId: string,
  page: { limit: number; cursor?: string },
): Promise<Page<StoredObservation>> {
  const after = placeOfCursor(page.cursor);
  const key = keyOfId(traceId);
  const found = await reading.findObservations(database, scope, key, after, page.limit);
  return pageOfRows(
    found,
    ({ place }) => place,
    ({ observation }) => observation,
  );
}

async function getObservation(
  database: StoreDatabase,
  scope: ScopeValues,
  id: string,
  traceId: string | undefined,
): Promise<StoredObservation | undefined> {
  const inTrace = (trace: string) =>
    reading.findInTrace(database, scope, keyOfId(trace), observationKey(trace, id));
  if (traceId !== undefined) return inTrace(traceId);
  const named = traceInId(id);
  if (named !== undefined) {
    const found = await inTrace(named);
    if (found !== undefined) return found;
  }
  return reading.findAnywhere(database, scope, keyOfId(id));
}
