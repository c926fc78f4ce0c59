import type { ObservationBatch, SealedBatch } from '../../src/model/batch.ts';
import { PermanentError } from '../../src/model/errors.ts';
import { OBSERVATION_KINDS, OBSERVATION_STATUSES } from '../../src/model/observation.ts';
import type { BatchRecord } from '../../src/queue/record.ts';
import { batchOf, recordOf } from '../../src/queue/record.ts';
import type { Database } from '../../src/sqlite/database.ts';
import type { WrittenParts } from '../../src/sqlite/queue/part-operations.ts';
import type { SqliteQueueStorage } from '../../src/sqlite/queue/storage.ts';
import type { BatchRows } from '../../src/store/rows/batch-rows.ts';
import { positionsOf, rowsOf } from '../../src/store/rows/batch-rows.ts';
import { keyOfId, observationKey } from '../../src/store/rows/observation-row.ts';
import { cursorOf, placeOf } from '../../src/store/rows/place.ts';
import type { TraceRow } from '../../src/store/rows/stored.ts';
import { idOfTrace, observationOf, traceOf } from '../../src/store/rows/stored.ts';
import { traceInId, tracePage } from '../../src/store/rows/trace-page.ts';
import type {
  Page,
  StoredObservation,
  StoredTrace,
  TraceFilter,
  TraceStore,
} from '../../src/store/store.ts';
import type { Retention } from '../../src/tenancy/retention.ts';
import { NEEDS_BATCH, PROJECT_DELETED } from './trace-operations.ts';
import type { Scope, StoredRow, TraceQuery } from './trace-reading.ts';
import { splitRow } from './trace-statements.ts';

/** What a row weighs in its group beside the others', in bytes that take as long to write. */
const ROW_WEIGHT = 8192;
/** Rows of one call: others need not wait for a whole large batch. */
const CALL_ROWS = 200;
const NO_BYTES = new Uint8Array(0);

type Queues = Pick<SqliteQueueStorage, 'usage' | 'largeBodies'>;

export function sqliteTraces(database: Database, queues: Queues, retention: Retention): TraceStore {
  // What is past its time is gone for readers, removed already or not.
  const scopeOf = (projectId: string): Scope => [projectId, retention.since(projectId)];
  return {
    write: (batch) => write(database, queues, batch),
    listTraces: (projectId, filter) => listTraces(database, scopeOf(projectId), filter),
    async getTrace(projectId, traceId) {
      const args = [scopeOf(projectId), keyOfId(traceId)];
      const row = (await database.search('traces.get', args)) as TraceRow | null;
      return row === null ? undefined : traceOf(row);
    },
    listObservations: (projectId, traceId, page) =>
      listObservations(database, scopeOf(projectId), traceId, page),
    getObservation: (projectId, id, traceId) =>
      getObservation(database, scopeOf(projectId), id, traceId),
    async getBatches(projectId, ids) {
      const records = await database.search('batches.get', [scopeOf(projectId), ids]);
      return (records as BatchRecord[]).map(batchOf);
    },
  };
}

/** In calls of bounded length; repeated after a crash in between, the first of them change nothing. */
async function write(database: Database, queues: Queues, batch: ObservationBatch): Promise<void> {
  const { source, observations } = batch;
  const positions = positionsOf(source);
  for (let at = 0; at < observations.length; at += CALL_ROWS) {
    const some = observations.slice(at, at + CALL_ROWS);
    await writeRows(database, queues, source, rowsOf(source, some, positions));
  }
}

async function writeRows(
  database: Database,
  { usage, largeBodies }: Queues,
  source: SealedBatch,
  { traces, updates, children, count }: BatchRows,
): Promise<void> {
  const { projectId } = source.tenant;
  let parts: WrittenParts | null = null;
  const call = async (record: BatchRecord | null, usageAt: number): Promise<unknown> => {
    const { id, receivedAt } = source;
    const rows = [receivedAt, traces, updates, children];
    const args = [projectId, id, record, ...rows, usageAt, parts];
    const weight = count * ROW_WEIGHT;
    const size = record?.[14].byteLength ?? 0;
    const answer = await database.write('traces.write', args, { weight: weight + size });
    if (answer !== PROJECT_DELETED) return answer;
    throw projectDeleted(projectId);
  };
  // The batch stands in this store already when the queue before is the store's own: it is not sent twice.
  if ((await call(null, source.receivedAt)) !== NEEDS_BATCH) return;
  const usageAt = usage.entering(source);
  try {
    if (largeBodies.isLarge(source)) {
      parts = await largeBodies.write(source);
      if (parts === null) throw projectDeleted(projectId);
    }
    const record = parts === null ? recordOf(source) : recordOf(source, NO_BYTES);
    const isNew = await call(record, usageAt);
    usage.entered(source.id, isNew === true ? 'written' : 'known');
  } catch (error) {
    usage.entered(source.id, 'failed');
    throw error;
  } finally {
    if (parts !== null) await largeBodies.end(projectId, parts[0]);
  }
}

function projectDeleted(projectId: string): PermanentError {
  return new PermanentError('project_deleted', `the project ${projectId} was deleted`);
}

async function listTraces(
  database: Database,
  scope: Scope,
  filter: TraceFilter,
): Promise<Page<StoredTrace>> {
  const query: TraceQuery = {
    limit: filter.limit + 1,
    before: placeOf(filter.cursor),
    from: filter.from === undefined ? null : [filter.from.ms, filter.from.ns],
    to: filter.to === undefined ? null : [filter.to.ms, filter.to.ns],
    status: filter.status === undefined ? null : OBSERVATION_STATUSES.indexOf(filter.status),
    kind: filter.kind === undefined ? null : OBSERVATION_KINDS.indexOf(filter.kind),
    name: filter.name ?? null,
    query: filter.query === undefined || filter.query === '' ? null : filter.query,
  };
  const rows = (await database.search('traces.list', [scope, query])) as TraceRow[];
  return tracePage(rows, filter.limit);
}

async function listObservations(
  database: Database,
  scope: Scope,
  traceId: string,
  page: { limit: number; cursor?: string },
): Promise<Page<StoredObservation>> {
  const args = [scope, keyOfId(traceId), placeOf(page.cursor), page.limit + 1];
  const rows = (await database.search('traces.observations', args)) as StoredRow[];
  const items = rows.slice(0, page.limit);
  const last = items.at(-1);
  let nextCursor: string | null = null;
  if (rows.length > page.limit && last !== undefined) {
    const [n, row] = splitRow([...last[0]]);
    nextCursor = cursorOf([row[9] ?? Number.MAX_SAFE_INTEGER, row[10] ?? 0, n]);
  }
  return { items: items.map((row) => storedOf(scope[0], row)), nextCursor };
}

async function getObservation(
  database: Database,
  scope: Scope,
  id: string,
  traceId: string | undefined,
): Promise<StoredObservation | undefined> {
  const [projectId] = scope;
  const inTrace = (trace: string): Promise<unknown> =>
    database.search('observations.inTrace', [scope, keyOfId(trace), observationKey(trace, id)]);
  if (traceId !== undefined) {
    const row = (await inTrace(traceId)) as StoredRow | null;
    return row === null ? undefined : storedOf(projectId, row);
  }
  const named = traceInId(id);
  if (named !== undefined) {
    const row = (await inTrace(named)) as StoredRow | null;
    if (row !== null) return storedOf(projectId, row);
  }
  const args = [scope, keyOfId(id)];
  const row = (await database.search('observations.anywhere', args)) as StoredRow | null;
  return row === null ? undefined : storedOf(projectId, row);
}

function storedOf(projectId: string, stored: StoredRow): StoredObservation {
  const [cells, traceKey, traceLongId, payload] = stored;
  const [, row, state] = splitRow([...cells]);
  return observationOf(projectId, idOfTrace(traceKey, traceLongId), row, state, payload);
}
