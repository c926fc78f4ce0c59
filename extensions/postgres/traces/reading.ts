/** Queries for readers. Each is limited to a project and to traces with an event since a time. */
import type { BatchRecord } from '../../../src/queue/record.ts';
import { RECORD_COLUMNS } from '../../../src/queue/record.ts';
import type { ListStatement } from '../../../src/store/plan/dialect.ts';
import type { Look } from '../../../src/store/plan/step.ts';
import { countsOf, stepPlan } from '../../../src/store/plan/step.ts';
import { MARK } from '../../../src/store/rows/event-rank.ts';
import {
  listedColumn,
  listedRow,
  listedTraceRow,
  rowBytes,
} from '../../../src/store/rows/listed.ts';
import type { Key, ObservationRow } from '../../../src/store/rows/observation-row.ts';
import { payloadMarks } from '../../../src/store/rows/observation-row.ts';
import type { FoundRows } from '../../../src/store/rows/page.ts';
import { takeRows } from '../../../src/store/rows/page.ts';
import type { Place } from '../../../src/store/rows/place.ts';
import { FIRST_PLACE, NO_START, placeOfRow } from '../../../src/store/rows/place.ts';
import type { PayloadRefs, TraceRow } from '../../../src/store/rows/stored.ts';
import { idOfTrace, observationOf, TRACE_ROW_COLUMNS } from '../../../src/store/rows/stored.ts';
import type { TraceStep } from '../../../src/store/rows/trace-page.ts';
import type { StoredObservation } from '../../../src/store/store.ts';
import type { BatchRow } from '../batches/batches.ts';
import { recordIn } from '../batches/batches.ts';
import type { PostgresClient } from '../connection/statement.ts';
import { row, rows } from '../connection/statement.ts';
import { postgresDialect } from './dialect.ts';
import type { ObservationTableRow } from './rows.ts';
import { entryOf, OBSERVATION_COLUMNS } from './rows.ts';
import type { Entry } from './snapshot.ts';
import { bytesOfKey, keyOfBytes, textOrNull } from './text.ts';

/** `since`: milliseconds since the epoch. */
export type ScopeValues = readonly [project: string, since: number];

const TRACE_CELLS = TRACE_ROW_COLUMNS.map((column) => listedColumn('t', column)).join(', ');

type NumberColumn =
  | ('status' | 'start_ms' | 'start_ns' | 'end_ms' | 'end_ns' | 'source' | 'is_ended')
  | ('newest_ms' | 'latency' | 'ttft' | 'errors' | 'is_skewed');
type TextColumn =
  | ('long_id' | 'name' | 'model_usage' | 'other_usage' | 'key_id' | 'session_id')
  | ('user_id' | 'environment' | 'release' | 'facts');
/** A trace as a listing reads it: the columns of a `TraceRow`. */
type ListedTrace = Readonly<Record<'n' | 'at_ms' | 'at_ns' | 'observations', number>> &
  Readonly<Record<NumberColumn, number | null>> &
  Readonly<Record<TextColumn, string | null>> & { readonly key: Buffer };

/** One step of a listing. A search looks at some traces and finds those that match. */
export async function findTraces(
  client: PostgresClient,
  [project, since]: ScopeValues,
  look: Look,
): Promise<Omit<TraceStep, 'spentMs'>> {
  const ways = stepPlan(postgresDialect, { project, since }, look);
  const plan = ways.by(countsOf(await probedWays(client, ways.probe)));
  const end = plan.isSearch ? await endOfLook(client, plan.end) : null;
  const { sql, values } = plan.list(TRACE_CELLS, end);
  const found = await rows<ListedTrace>(client, sql, values);
  return { ...takeRows(found.map(traceRowOf), look.limit, rowBytes), end };
}

export async function probedWays(
  client: PostgresClient,
  probe: ListStatement | undefined,
): Promise<readonly number[]> {
  if (probe === undefined) return [];
  const counts = await row<Readonly<Record<string, number>>>(client, probe.sql, probe.values);
  return Object.values(counts ?? {});
}

/** The place of the last trace that one step of a search looks at; null if the range has fewer. */
export async function endOfLook(
  client: PostgresClient,
  { sql, values }: ListStatement,
): Promise<Place | null> {
  const last = await row<Pick<ListedTrace, 'at_ms' | 'at_ns' | 'n'>>(client, sql, values);
  return last === undefined ? null : { ms: last.at_ms, ns: last.at_ns, n: last.n };
}

export async function findTrace(
  client: PostgresClient,
  scope: ScopeValues,
  key: Key,
): Promise<TraceRow | undefined> {
  const found = await row<ListedTrace>(
    client,
    `SELECT ${TRACE_CELLS} FROM traces t
     WHERE t.project = $1 AND t.updated_at >= $2 AND t.key = $3`,
    [...scope, bytesOfKey(key)],
  );
  return found === undefined ? undefined : traceRowOf(found);
}

function traceRowOf(trace: ListedTrace): TraceRow {
  return listedTraceRow([
    trace.n,
    trace.at_ms,
    trace.at_ns,
    keyOfBytes(trace.key),
    textOrNull(trace.long_id),
    textOrNull(trace.name),
    trace.status,
    trace.start_ms,
    trace.start_ns,
    trace.end_ms,
    trace.end_ns,
    trace.observations,
    textOrNull(trace.model_usage),
    textOrNull(trace.other_usage),
    textOrNull(trace.key_id),
    trace.source,
    trace.is_ended,
    trace.newest_ms,
    trace.latency,
    trace.ttft,
    trace.errors,
    textOrNull(trace.session_id),
    textOrNull(trace.user_id),
    textOrNull(trace.environment),
    textOrNull(trace.release),
    trace.is_skewed,
    textOrNull(trace.facts),
  ]);
}

const PLACE = `coalesce(o.start_ms, ${NO_START}), coalesce(o.start_ns, 0), o.n`;
const OBSERVATIONS = `SELECT ${OBSERVATION_COLUMNS.map(({ name }) => `o.${name}`).join(', ')},`;
const LISTED_OBSERVATIONS = `SELECT ${OBSERVATION_COLUMNS.map(({ name }) => listedColumn('o', name)).join(', ')},`;
const OF_TRACE = `
    t.key AS trace_key, t.long_id AS trace_long_id
  FROM observations o JOIN traces t ON t.n = o.trace
  WHERE t.project = $1 AND t.updated_at >= $2`;

type ReadObservation = ObservationTableRow & {
  readonly trace_key: Buffer;
  readonly trace_long_id: string | null;
};

export type FoundObservation = {
  readonly place: Place;
  readonly observation: StoredObservation;
  /** About the bytes of the row in memory. */
  readonly bytes: number;
};

export async function findObservations(
  client: PostgresClient,
  scope: ScopeValues,
  traceKey: Key,
  after: Place | null,
  limit: number,
): Promise<FoundRows<FoundObservation>> {
  const { ms, ns, n } = after ?? FIRST_PLACE;
  const found = await rows<ReadObservation>(
    client,
    `${LISTED_OBSERVATIONS} ${OF_TRACE} AND t.key = $3 AND (${PLACE}) > ($4::bigint, $5::bigint, $6::bigint)
     ORDER BY ${PLACE} LIMIT $7`,
    [...scope, bytesOfKey(traceKey), ms, ns, n, limit + 1],
  );
  const listed = found.map((observation) => foundIn(scope, observation, listedRow));
  return takeRows(listed, limit, ({ bytes }) => bytes);
}

export async function findInTrace(
  client: PostgresClient,
  scope: ScopeValues,
  traceKey: Key,
  key: Key,
): Promise<StoredObservation | undefined> {
  const found = await row<ReadObservation>(
    client,
    `${OBSERVATIONS} ${OF_TRACE} AND t.key = $3 AND o.key = $4`,
    [...scope, bytesOfKey(traceKey), bytesOfKey(key)],
  );
  return found && foundIn(scope, found).observation;
}

/** The root of a trace. */
export async function findRoot(
  client: PostgresClient,
  scope: ScopeValues,
  traceKey: Key,
): Promise<StoredObservation | undefined> {
  const found = await row<ReadObservation>(
    client,
    `${OBSERVATIONS} ${OF_TRACE} AND t.key = $3 AND o.n = t.root`,
    [...scope, bytesOfKey(traceKey)],
  );
  return found && foundIn(scope, found).observation;
}

export async function findAnywhere(
  client: PostgresClient,
  scope: ScopeValues,
  key: Key,
): Promise<StoredObservation | undefined> {
  const found = await row<ReadObservation>(
    client,
    `${OBSERVATIONS} ${OF_TRACE} AND o.project = $1 AND o.key = $3 AND substr(o.key, 1, 1) <> '\\x3a'::bytea
     ORDER BY o.updated_at DESC, o.n DESC LIMIT 1`,
    [...scope, bytesOfKey(key)],
  );
  return found && foundIn(scope, found).observation;
}

function foundIn(
  [project]: ScopeValues,
  found: ReadObservation,
  shown = (row: ObservationRow): ObservationRow => row,
): FoundObservation {
  const entry = entryOf(found);
  const row = shown(entry.row);
  const trace = idOfTrace(keyOfBytes(found.trace_key), textOrNull(found.trace_long_id));
  return {
    place: placeOfRow(entry.n, row),
    observation: observationOf(project, trace, row, entry.state, payloadRefsOf(entry)),
    bytes: rowBytes(row),
  };
}

function payloadRefsOf({ row, state }: Entry): PayloadRefs {
  return payloadMarks(row, state).map((mark) =>
    mark === null ? null : { batchId: mark[MARK.BATCH], position: mark[MARK.POSITION] },
  );
}

/** Raw batches that were received within the time, or that a trace within the time has events of. */
export async function findBatches(
  client: PostgresClient,
  scope: ScopeValues,
  ids: readonly string[],
): Promise<BatchRecord[]> {
  const batches = await rows<BatchRow>(
    client,
    `SELECT ${RECORD_COLUMNS} FROM batches r
     WHERE r.id = ANY ($3) AND r.project = $1 AND (r.received_at >= $2 OR EXISTS (
       SELECT 1 FROM batch_traces b JOIN traces t ON t.n = b.trace
       WHERE b.batch = r.id AND t.project = $1 AND t.updated_at >= $2))`,
    [...scope, ids],
  );
  const byId = new Map(batches.map((batch) => [batch.id, recordIn(batch)]));
  return ids.map((id) => byId.get(id)).filter((record) => record !== undefined);
}
