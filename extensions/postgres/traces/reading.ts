/** Queries for readers. Each is limited to a project and to traces with an event since a time. */
import type { BatchRecord } from '../../../src/queue/record.ts';
import { RECORD_COLUMNS } from '../../../src/queue/record.ts';
import type { Dialect } from '../../../src/store/plan/dialect.ts';
import { matchStatement } from '../../../src/store/plan/match.ts';
import type { Look } from '../../../src/store/plan/step.ts';
import { MARK } from '../../../src/store/rows/event-rank.ts';
import {
  listedColumn,
  listedRow,
  listedTraceRow,
  rowBytes,
} from '../../../src/store/rows/listed.ts';
import type { Key, ObservationRow } from '../../../src/store/rows/observation-row.ts';
import { eventMarks, payloadMarks } from '../../../src/store/rows/observation-row.ts';
import type { FoundRows } from '../../../src/store/rows/page.ts';
import { takeRows } from '../../../src/store/rows/page.ts';
import type { Place } from '../../../src/store/rows/place.ts';
import { FIRST_PLACE, NO_START, placeOfRow } from '../../../src/store/rows/place.ts';
import type { PayloadRefs, TraceRow } from '../../../src/store/rows/stored.ts';
import { idOfTrace, observationOf, TRACE_ROW_COLUMNS } from '../../../src/store/rows/stored.ts';
import type { TraceStep } from '../../../src/store/rows/trace-page.ts';
import { behindHex } from '../../../src/store/rows/trace-page.ts';
import type { EventRef, StoredObservation } from '../../../src/store/store.ts';
import type { BatchRow } from '../batches/batches.ts';
import { recordIn } from '../batches/batches.ts';
import type { PostgresClient } from '../connection/statement.ts';
import { row, rows } from '../connection/statement.ts';
import type { ObservationTableRow } from './rows.ts';
import { entryOf, OBSERVATION_COLUMNS } from './rows.ts';
import { LISTED_SCORES } from './scores.ts';
import type { Entry } from './snapshot.ts';
import { readStep } from './step-reading.ts';
import { bytesOfKey, keyOfBytes, textOrNull } from './text.ts';

/** `since`: milliseconds since the epoch. */
export type ScopeValues = readonly [project: string, since: number];

const TRACE_CELLS = [
  ...TRACE_ROW_COLUMNS.map((column) => listedColumn('t', column)),
  LISTED_SCORES,
].join(', ');

/** The trace with the key $3 of the project $1. Postgres then looks into one partition. */
const OF_KEY = 't.n = (SELECT n FROM trace_keys WHERE project = $1 AND key = $3)';

type NumberColumn =
  | ('status' | 'start_ms' | 'start_ns' | 'end_ms' | 'end_ns' | 'source' | 'is_ended')
  | ('newest_ms' | 'latency' | 'ttft' | 'errors' | 'is_skewed');
type TextColumn =
  | ('long_id' | 'name' | 'model_usage' | 'other_usage' | 'key_id' | 'session_id')
  | (
      | 'user_id'
      | 'environment'
      | 'release'
      | 'facts'
      | 'input_preview'
      | 'output_preview'
      | 'scores'
    );
/** A trace as a listing reads it: the columns of a `TraceRow`. */
type ListedTrace = Readonly<Record<'n' | 'at_ms' | 'at_ns' | 'observations', number>> &
  Readonly<Record<NumberColumn, number | null>> &
  Readonly<Record<TextColumn, string | null>> & { readonly key: Buffer };

/** One step of a listing. A search looks at some traces and finds those that match. */
export async function findTraces(
  client: PostgresClient,
  dialect: Dialect,
  [project, since]: ScopeValues,
  look: Look,
): Promise<Omit<TraceStep, 'spentMs'>> {
  const scope = { project, since };
  const { found, end } = await readStep<ListedTrace>(client, dialect, scope, look, TRACE_CELLS);
  return { ...takeRows(found.map(traceRowOf), look.limit, rowBytes), end };
}

/** The traces with these ids that match a query. */
export async function findMatching(
  client: PostgresClient,
  dialect: Dialect,
  [project, since]: ScopeValues,
  look: Parameters<typeof matchStatement>[2],
): Promise<TraceRow[]> {
  const { sql, values } = matchStatement(dialect, { project, since }, look, TRACE_CELLS);
  return (await rows<ListedTrace>(client, sql, values)).map(traceRowOf);
}

export async function findTrace(
  client: PostgresClient,
  scope: ScopeValues,
  key: Key,
): Promise<TraceRow | undefined> {
  const found = await row<ListedTrace>(
    client,
    `SELECT ${TRACE_CELLS} FROM traces t
     WHERE t.project = $1 AND t.updated_at >= $2 AND ${OF_KEY}`,
    [...scope, bytesOfKey(key)],
  );
  return found === undefined ? undefined : traceRowOf(found);
}

/** The ids of traces that begin with a text of hex digits, in their order. */
export async function findTraceIds(
  client: PostgresClient,
  [project]: ScopeValues,
  beginning: string,
  limit: number,
): Promise<string[]> {
  const found = await rows<{ readonly key: Buffer }>(
    client,
    `SELECT key FROM trace_keys WHERE project = $1 AND key >= $2 AND key < $3
     ORDER BY key LIMIT $4`,
    [project, Buffer.from(beginning), Buffer.from(behindHex(beginning)), limit],
  );
  return found.map(({ key }) => key.toString());
}

export async function findTracesByNumber(
  client: PostgresClient,
  scope: ScopeValues,
  numbers: readonly number[],
): Promise<TraceRow[]> {
  const found = await rows<ListedTrace>(
    client,
    `SELECT ${TRACE_CELLS} FROM traces t
     WHERE t.project = $1 AND t.updated_at >= $2 AND t.n = ANY ($3::bigint[])`,
    [...scope, numbers],
  );
  return found.map(traceRowOf);
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
    textOrNull(trace.input_preview),
    textOrNull(trace.output_preview),
    trace.scores,
  ]);
}

export const ROW_PLACE = `coalesce(o.start_ms, ${NO_START}), coalesce(o.start_ns, 0), o.n`;
const OBSERVATIONS = selectOf((column) => `o.${column}`);
const LISTED_OBSERVATIONS = selectOf((column) => listedColumn('o', column));

function selectOf(cellOf: (column: string) => string): string {
  return `SELECT ${OBSERVATION_COLUMNS.map(({ name }) => cellOf(name)).join(', ')},`;
}

const AND_TRACE = `
    t.key AS trace_key, t.long_id AS trace_long_id, t.newest_ms AS trace_newest_ms
  FROM observations o JOIN traces t ON t.n = o.trace`;
const OF_TRACE = `${AND_TRACE}
  WHERE t.project = $1 AND t.updated_at >= $2`;

type ReadObservation = ObservationTableRow & {
  readonly trace_key: Buffer;
  readonly trace_long_id: string | null;
  readonly trace_newest_ms: number | null;
};

export type FoundObservation = {
  readonly place: Place;
  /** `staleBefore`: see `traceOf`. */
  observation(staleBefore: number): StoredObservation;
  /** The events that the observation has its fields from. */
  events(): readonly EventRef[];
  /** About the bytes of the row in memory. */
  readonly bytes: number;
};

/**
 * Observations of a trace behind a place. The index `observations_in_order` gives the order: Postgres knows that only if the
 * number of the trace is one value of the statement.
 */
export const BEHIND_PLACE = `
    WHERE o.trace = (SELECT n FROM trace_keys WHERE project = $1 AND key = $3)
      AND t.project = $1 AND t.updated_at >= $2
      AND (${ROW_PLACE}) > ($4::bigint, $5::bigint, $6::bigint)
    ORDER BY ${ROW_PLACE} LIMIT $7`;
/** The statement of a page, with all columns. */
export const OBSERVATION_PAGE = `${LISTED_OBSERVATIONS} ${AND_TRACE} ${BEHIND_PLACE}`;

/** The observations of the traces with the keys $3. */
export const OF_TRACES = `FROM unnest($3::bytea[]) WITH ORDINALITY AS w(key, place)
     JOIN trace_keys k ON k.project = $1 AND k.key = w.key
     JOIN traces t ON t.n = k.n AND t.project = $1 AND t.updated_at >= $2
     JOIN observations o ON o.trace = t.n`;

export type PageRange = { readonly after: Place | null; readonly limit: number };

export async function findObservations(
  client: PostgresClient,
  scope: ScopeValues,
  traceKey: Key,
  range: PageRange,
): Promise<FoundRows<FoundObservation>> {
  const values = pageValues(scope, traceKey, range);
  const found = await rows<ReadObservation>(client, OBSERVATION_PAGE, values);
  const listed = found.map((observation) => foundIn(scope, observation, listedRow));
  return takeRows(listed, range.limit, ({ bytes }) => bytes);
}

/** One row more than the limit, which says whether there are further ones. */
export function pageValues(
  scope: ScopeValues,
  traceKey: Key,
  { after, limit }: PageRange,
): unknown[] {
  const { ms, ns, n } = after ?? FIRST_PLACE;
  return [...scope, bytesOfKey(traceKey), ms, ns, n, limit + 1];
}

/** The observations of the traces, in the order of the keys. They are sorted: the caller bounds how many the traces have. */
export async function findObservationsOf(
  client: PostgresClient,
  scope: ScopeValues,
  traceKeys: readonly Key[],
  limit: number,
): Promise<FoundRows<FoundObservation>> {
  const values = [...scope, traceKeys.map(bytesOfKey), limit + 1];
  const found = await rows<ReadObservation>(
    client,
    `${LISTED_OBSERVATIONS} t.key AS trace_key, t.long_id AS trace_long_id, t.newest_ms AS trace_newest_ms
     ${OF_TRACES} ORDER BY w.place, ${ROW_PLACE} LIMIT $4`,
    values,
  );
  const listed = found.map((observation) => foundIn(scope, observation, listedRow));
  return takeRows(listed, limit, ({ bytes }) => bytes);
}

export function findInTrace(
  client: PostgresClient,
  scope: ScopeValues,
  traceKey: Key,
  key: Key,
): Promise<FoundObservation | undefined> {
  return findOne(client, scope, [traceKey, key], `${OF_KEY} AND o.key = $4`);
}

/** The root of a trace. */
export function findRoot(
  client: PostgresClient,
  scope: ScopeValues,
  traceKey: Key,
): Promise<FoundObservation | undefined> {
  return findOne(client, scope, [traceKey], `${OF_KEY} AND o.n = t.root`);
}

/** The newest observation with a key, of any trace. */
export function findAnywhere(
  client: PostgresClient,
  scope: ScopeValues,
  key: Key,
): Promise<FoundObservation | undefined> {
  const where = `o.project = $1 AND o.key = $3 AND substr(o.key, 1, 1) <> '\\x3a'::bytea
     ORDER BY o.updated_at DESC, o.n DESC LIMIT 1`;
  return findOne(client, scope, [key], where);
}

async function findOne(
  client: PostgresClient,
  scope: ScopeValues,
  keys: readonly Key[],
  where: string,
): Promise<FoundObservation | undefined> {
  const found = await row<ReadObservation>(client, `${OBSERVATIONS} ${OF_TRACE} AND ${where}`, [
    ...scope,
    ...keys.map(bytesOfKey),
  ]);
  return found && foundIn(scope, found);
}

function foundIn(
  [projectId]: ScopeValues,
  found: ReadObservation,
  shown = (row: ObservationRow): ObservationRow => row,
): FoundObservation {
  const entry = entryOf(found);
  const row = shown(entry.row);
  const traceId = idOfTrace(keyOfBytes(found.trace_key), textOrNull(found.trace_long_id));
  const newestMs = found.trace_newest_ms;
  return {
    place: placeOfRow(entry.n, row),
    observation: (staleBefore) =>
      observationOf(
        { projectId, traceId, newestMs, staleBefore },
        row,
        entry.state,
        payloadRefsOf(entry),
      ),
    events: () =>
      eventMarks(entry.row, entry.state).map((mark) => ({
        batchId: mark[MARK.BATCH],
        position: mark[MARK.POSITION],
      })),
    bytes: rowBytes(row),
  };
}

function payloadRefsOf({ row, state }: Entry): PayloadRefs {
  return payloadMarks(row, state).map((mark) =>
    mark === null ? null : { batchId: mark[MARK.BATCH], position: mark[MARK.POSITION] },
  );
}

/** Raw batches that were received within the time, or that a trace within the time has events of. */
const FROM_BATCHES = `
  FROM batches r
  WHERE r.id = ANY ($3) AND r.project = $1 AND (r.received_at >= $2 OR EXISTS (
    SELECT 1 FROM batch_traces b JOIN traces t ON t.n = b.trace
    WHERE b.batch = r.id AND t.project = $1 AND t.updated_at >= $2))`;

export async function findBatches(
  client: PostgresClient,
  scope: ScopeValues,
  ids: readonly string[],
): Promise<BatchRecord[]> {
  const batches = await rows<BatchRow>(client, `SELECT ${RECORD_COLUMNS} ${FROM_BATCHES}`, [
    ...scope,
    ids,
  ]);
  const byId = new Map(batches.map((batch) => [batch.id, recordIn(batch)]));
  return ids.map((id) => byId.get(id)).filter((record) => record !== undefined);
}

/** The transaction that wrote each batch, or rewrote it. */
export async function findStamps(
  client: PostgresClient,
  scope: ScopeValues,
  ids: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const found = await rows<{ readonly id: string; readonly stamp: string }>(
    client,
    `SELECT r.id, r.xmin::text AS stamp ${FROM_BATCHES}`,
    [...scope, ids],
  );
  return new Map(found.map(({ id, stamp }) => [id, stamp]));
}

/** The ids of traces by their numbers; those that are gone are left out. */
export async function traceIds(
  client: PostgresClient,
  numbers: readonly number[],
): Promise<string[]> {
  type Found = { readonly key: Buffer; readonly long_id: string | null };
  const found = await rows<Found>(client, 'SELECT key, long_id FROM traces WHERE n = ANY ($1)', [
    numbers,
  ]);
  return found.map(({ key, long_id }) => idOfTrace(keyOfBytes(key), textOrNull(long_id)));
}
