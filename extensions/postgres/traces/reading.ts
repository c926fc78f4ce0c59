/** Queries for readers. Each is limited to a project and to traces with an event since a time. */
import { OBSERVATION_KINDS, OBSERVATION_STATUSES } from '../../../src/model/observation.ts';
import type { BatchRecord } from '../../../src/queue/record.ts';
import { RECORD_COLUMNS } from '../../../src/queue/record.ts';
import { MARK } from '../../../src/store/rows/event-rank.ts';
import type { Key } from '../../../src/store/rows/observation-row.ts';
import { payloadMarks } from '../../../src/store/rows/observation-row.ts';
import type { Place } from '../../../src/store/rows/place.ts';
import { FIRST_PLACE, NO_START, placeOfRow } from '../../../src/store/rows/place.ts';
import type { PayloadRefs, TraceRow } from '../../../src/store/rows/stored.ts';
import { idOfTrace, observationOf } from '../../../src/store/rows/stored.ts';
import type { StoredObservation, TraceFilter } from '../../../src/store/store.ts';
import type { BatchRow } from '../batches/batches.ts';
import { recordIn } from '../batches/batches.ts';
import type { PostgresClient } from '../connection/statement.ts';
import { row, rows } from '../connection/statement.ts';
import type { ObservationTableRow, TraceTableRow } from './rows.ts';
import { entryOf, OBSERVATION_COLUMNS } from './rows.ts';
import type { Entry } from './snapshot.ts';
import { bytesOfKey, escapeText, keyOfBytes, textOrNull } from './text.ts';

/** `since`: milliseconds since the epoch. */
export type ScopeValues = readonly [project: string, since: number];

const TRACE_CELLS =
  't.n, t.key, t.long_id, t.at_ms, t.at_ns, t.name, t.status, t.start_ms, t.start_ns, t.end_ms, ' +
  't.end_ns, t.observations, t.model_usage, t.other_usage';

type ListedTrace = Pick<
  TraceTableRow,
  | ('n' | 'at_ms' | 'at_ns' | 'name' | 'status' | 'start_ms' | 'start_ns' | 'end_ms' | 'end_ns')
  | ('observations' | 'model_usage' | 'other_usage')
> & { readonly key: Buffer; readonly long_id: string | null };

/** Newest first. Only the given conditions are in the statement, so that the index by time provides the order. */
export async function findTraces(
  client: PostgresClient,
  scope: ScopeValues,
  filter: TraceFilter,
  before: Place | null,
  limit: number,
): Promise<TraceRow[]> {
  const values: unknown[] = [...scope];
  const where = ['t.project = $1', 't.updated_at >= $2'];
  const given = (value: unknown): string => `$${values.push(value)}`;
  const place = (of: readonly number[]): string =>
    `(${of.map((part) => `${given(part)}::bigint`).join(', ')})`;
  const { from, to, status, kind, name, query } = filter;
  if (before !== null) {
    where.push(`(t.at_ms, t.at_ns, t.n) < ${place([before.ms, before.ns, before.n])}`);
  }
  if (from !== undefined) where.push(`(t.at_ms, t.at_ns) >= ${place([from.ms, from.ns])}`);
  if (to !== undefined) where.push(`(t.at_ms, t.at_ns) < ${place([to.ms, to.ns])}`);
  if (status !== undefined) where.push(`t.status = ${given(OBSERVATION_STATUSES.indexOf(status))}`);
  if (name !== undefined) where.push(`t.name = ${given(escapeText(name))}`);
  if (kind !== undefined) {
    where.push(anyObservation(`o.kind = ${given(OBSERVATION_KINDS.indexOf(kind))}`));
  }
  if (query !== undefined && query !== '') {
    const text = given(likeAnywhere(query));
    // Custom fields are JSON, which escapes some characters.
    const json = given(likeAnywhere(JSON.stringify(query).slice(1, -1)));
    where.push(
      anyObservation(`(o.name ILIKE ${text} OR o.model ILIKE ${text} OR o.custom ILIKE ${json})`),
    );
  }
  const found = await rows<ListedTrace>(
    client,
    `SELECT ${TRACE_CELLS} FROM traces t WHERE ${where.join(' AND ')}
     ORDER BY t.at_ms DESC, t.at_ns DESC, t.n DESC LIMIT ${given(limit)}`,
    values,
  );
  return found.map(traceRowOf);
}

function anyObservation(condition: string): string {
  return `EXISTS (SELECT 1 FROM observations o WHERE o.trace = t.n AND ${condition})`;
}

/** A pattern for ILIKE. Collation "C" ignores the case of ASCII letters only. */
function likeAnywhere(text: string): string {
  return `%${escapeText(text).replaceAll(/[\\%_]/g, (character) => `\\${character}`)}%`;
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
  return [
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
  ];
}

const PLACE = `coalesce(o.start_ms, ${NO_START}), coalesce(o.start_ns, 0), o.n`;
const OBSERVATIONS = `
  SELECT ${OBSERVATION_COLUMNS.map(({ name }) => `o.${name}`).join(', ')},
    t.key AS trace_key, t.long_id AS trace_long_id
  FROM observations o JOIN traces t ON t.n = o.trace
  WHERE t.project = $1 AND t.updated_at >= $2`;

type ReadObservation = ObservationTableRow & {
  readonly trace_key: Buffer;
  readonly trace_long_id: string | null;
};

export type FoundObservation = { readonly place: Place; readonly observation: StoredObservation };

export async function findObservations(
  client: PostgresClient,
  scope: ScopeValues,
  traceKey: Key,
  after: Place | null,
  limit: number,
): Promise<FoundObservation[]> {
  const { ms, ns, n } = after ?? FIRST_PLACE;
  const found = await rows<ReadObservation>(
    client,
    `${OBSERVATIONS} AND t.key = $3 AND (${PLACE}) > ($4::bigint, $5::bigint, $6::bigint)
     ORDER BY ${PLACE} LIMIT $7`,
    [...scope, bytesOfKey(traceKey), ms, ns, n, limit],
  );
  return found.map((observation) => foundIn(scope, observation));
}

export async function findInTrace(
  client: PostgresClient,
  scope: ScopeValues,
  traceKey: Key,
  key: Key,
): Promise<StoredObservation | undefined> {
  const found = await row<ReadObservation>(
    client,
    `${OBSERVATIONS} AND t.key = $3 AND o.key = $4`,
    [...scope, bytesOfKey(traceKey), bytesOfKey(key)],
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
    `${OBSERVATIONS} AND o.project = $1 AND o.key = $3 AND substr(o.key, 1, 1) <> '\\x3a'::bytea
     ORDER BY o.updated_at DESC, o.n DESC LIMIT 1`,
    [...scope, bytesOfKey(key)],
  );
  return found && foundIn(scope, found).observation;
}

function foundIn([project]: ScopeValues, found: ReadObservation): FoundObservation {
  const entry = entryOf(found);
  const trace = idOfTrace(keyOfBytes(found.trace_key), textOrNull(found.trace_long_id));
  return {
    place: placeOfRow(entry.n, entry.row),
    observation: observationOf(project, trace, entry.row, entry.state, payloadRefsOf(entry)),
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
