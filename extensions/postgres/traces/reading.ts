/** What reads traces. Everything takes the project it reads for, and since when a trace must have had an event. */
import { OBSERVATION_KINDS, OBSERVATION_STATUSES } from '../../../src/model/observation.ts';
import type { BatchRecord } from '../../../src/queue/record.ts';
import { RECORD_COLUMNS } from '../../../src/queue/record.ts';
import { MARK } from '../../../src/store/rows/event-rank.ts';
import type { Key, ObservationRow, RowState } from '../../../src/store/rows/observation-row.ts';
import { payloadMarks } from '../../../src/store/rows/observation-row.ts';
import type { Place } from '../../../src/store/rows/place.ts';
import { FIRST_PLACE, NO_START, placeOfRow } from '../../../src/store/rows/place.ts';
import type { PayloadRefs, TraceRow } from '../../../src/store/rows/stored.ts';
import { idOfTrace, observationOf } from '../../../src/store/rows/stored.ts';
import type { StoredObservation, TraceFilter } from '../../../src/store/store.ts';
import type { BatchRow } from '../batches/batches.ts';
import { recordIn } from '../batches/batches.ts';
import type { PostgresClient, Row } from '../connection/statement.ts';
import { rows } from '../connection/statement.ts';
import type { Cell } from './cells.ts';
import {
  fromKey,
  fromStoredText,
  OBSERVATION_CELLS,
  observationOfCells,
  toKey,
  toStoredText,
} from './cells.ts';

/** A project, and milliseconds since the epoch. */
export type ScopeValues = readonly [project: string, since: number];

const TRACE_COLUMNS =
  't.n, t.key, t.long_id, t.at_ms, t.at_ns, t.name, t.status, t.start_ms, t.start_ns, t.end_ms, ' +
  't.end_ns, t.observations, t.model_usage, t.other_usage';

/** Newest first. Only the conditions that were asked for, so that the index by time carries the order. */
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
  if (name !== undefined) where.push(`t.name = ${given(toStoredText(name))}`);
  if (kind !== undefined) {
    where.push(anyObservation(`o.kind = ${given(OBSERVATION_KINDS.indexOf(kind))}`));
  }
  if (query !== undefined && query !== '') {
    const text = given(likeAnywhere(query));
    // Custom fields are kept as JSON, where some characters are written otherwise.
    const json = given(likeAnywhere(JSON.stringify(query).slice(1, -1)));
    where.push(
      anyObservation(`(o.name ILIKE ${text} OR o.model ILIKE ${text} OR o.custom ILIKE ${json})`),
    );
  }
  const { rows } = await client.query(
    `SELECT ${TRACE_COLUMNS} FROM traces t WHERE ${where.join(' AND ')}
     ORDER BY t.at_ms DESC, t.at_ns DESC, t.n DESC LIMIT ${given(limit)}`,
    values,
  );
  return rows.map(traceRow);
}

function anyObservation(condition: string): string {
  return `EXISTS (SELECT 1 FROM observations o WHERE o.trace = t.n AND ${condition})`;
}

/** The columns compare byte by byte, so that case is ignored of ASCII letters alone. */
function likeAnywhere(text: string): string {
  return `%${toStoredText(text).replaceAll(/[\\%_]/g, (character) => `\\${character}`)}%`;
}

export async function findTrace(
  client: PostgresClient,
  scope: ScopeValues,
  key: Key,
): Promise<TraceRow | undefined> {
  const { rows } = await client.query(
    `SELECT ${TRACE_COLUMNS} FROM traces t
     WHERE t.project = $1 AND t.updated_at >= $2 AND t.key = $3`,
    [...scope, toKey(key)],
  );
  return rows.map(traceRow)[0];
}

function traceRow(row: Row): TraceRow {
  const number = (name: string): number | null => (row[name] === null ? null : Number(row[name]));
  return [
    Number(row.n),
    Number(row.at_ms),
    Number(row.at_ns),
    fromKey(row.key as Buffer),
    textIn(row.long_id),
    textIn(row.name),
    number('status'),
    number('start_ms'),
    number('start_ns'),
    number('end_ms'),
    number('end_ns'),
    Number(row.observations),
    textIn(row.model_usage),
    textIn(row.other_usage),
  ];
}

function textIn(value: unknown): string | null {
  return typeof value === 'string' ? fromStoredText(value) : null;
}

const PLACE = `coalesce(o.start_ms, ${NO_START}), coalesce(o.start_ns, 0), o.n`;
const OBSERVATIONS = `
  SELECT ${OBSERVATION_CELLS.map(([name]) => `o.${name}`).join(', ')},
    t.key AS trace_key, t.long_id AS trace_long_id
  FROM observations o JOIN traces t ON t.n = o.trace
  WHERE t.project = $1 AND t.updated_at >= $2`;

export type FoundObservation = { readonly place: Place; readonly observation: StoredObservation };

export async function findObservations(
  client: PostgresClient,
  scope: ScopeValues,
  traceKey: Key,
  after: Place | null,
  limit: number,
): Promise<FoundObservation[]> {
  const { ms, ns, n } = after ?? FIRST_PLACE;
  const { rows } = await client.query(
    `${OBSERVATIONS} AND t.key = $3 AND (${PLACE}) > ($4::bigint, $5::bigint, $6::bigint)
     ORDER BY ${PLACE} LIMIT $7`,
    [...scope, toKey(traceKey), ms, ns, n, limit],
  );
  return rows.map((row) => found(scope, row));
}

export async function findInTrace(
  client: PostgresClient,
  scope: ScopeValues,
  traceKey: Key,
  key: Key,
): Promise<StoredObservation | undefined> {
  const { rows } = await client.query(`${OBSERVATIONS} AND t.key = $3 AND o.key = $4`, [
    ...scope,
    toKey(traceKey),
    toKey(key),
  ]);
  return rows.map((row) => found(scope, row).observation)[0];
}

export async function findAnywhere(
  client: PostgresClient,
  scope: ScopeValues,
  key: Key,
): Promise<StoredObservation | undefined> {
  const { rows } = await client.query(
    `${OBSERVATIONS} AND o.project = $1 AND o.key = $3 AND substr(o.key, 1, 1) <> '\\x3a'::bytea
     ORDER BY o.updated_at DESC, o.n DESC LIMIT 1`,
    [...scope, toKey(key)],
  );
  return rows.map((row) => found(scope, row).observation)[0];
}

function found([project]: ScopeValues, found: Row): FoundObservation {
  const { n, row, state } = observationOfCells(
    OBSERVATION_CELLS.map(([name]) => found[name] as Cell),
  );
  const trace = idOfTrace(fromKey(found.trace_key as Buffer), textIn(found.trace_long_id));
  return {
    place: placeOfRow(n, row),
    observation: observationOf(project, trace, row, state, payloadOf(row, state)),
  };
}

function payloadOf(row: ObservationRow, state: RowState<string>): PayloadRefs {
  return payloadMarks(row, state).map((mark) =>
    mark === null ? null : { batchId: mark[MARK.BATCH], position: mark[MARK.POSITION] },
  );
}

/** Raw batches that came within the time, or that a trace within the time has events of. */
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
  const byId = new Map(batches.map((row) => [row.id, recordIn(row)]));
  return ids.map((id) => byId.get(id)).filter((record) => record !== undefined);
}
