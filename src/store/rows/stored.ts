import { withCustomFieldsText } from '../../model/custom-fields.ts';
import { decodeJsonText } from '../../model/json/decode.ts';
import type {
  Instant,
  ObservationError,
  ObservationStatus,
  PayloadField,
  TokenUsage,
  TraceState,
} from '../../model/observation.ts';
import { PAYLOAD_FIELDS } from '../../model/observation.ts';
import type { EventRef, StoredObservation, StoredTrace } from '../store.ts';
import type { BatchRef } from './event-rank.ts';
import type { Key, ObservationRow, RowState } from './observation-row.ts';
import {
  detailsFromColumn,
  externalFromColumn,
  idOf,
  isEnded,
  kindOf,
  parentFromColumn,
  sourceNumberOf,
  sourceOfNumber,
  statusOf,
} from './observation-row.ts';
import { scoresFromColumn } from './score-rows.ts';
import type { TraceFacts } from './trace-summary.ts';

/** A trace as a listing reads it. A tuple: an object for each row makes a page a third more expensive. */
export type TraceRow = readonly [
  n: number,
  /** The time that orders listings. */
  atMs: number,
  atNs: number,
  key: Key,
  longId: string | null,
  name: string | null,
  status: number | null,
  startMs: number | null,
  startNs: number | null,
  endMs: number | null,
  endNs: number | null,
  observations: number,
  /** The sums of traces of earlier versions, until their summary is made. */
  modelUsage: string | null,
  otherUsage: string | null,
  keyId: string | null,
  source: number | null,
  isEnded: number | null,
  newestMs: number | null,
  latency: number | null,
  ttft: number | null,
  errors: number | null,
  session: string | null,
  user: string | null,
  environment: string | null,
  release: string | null,
  isSkewed: number | null,
  facts: string | null,
  inputPreview: string | null,
  outputPreview: string | null,
  /** The scores as JSON. */
  scores: string | null,
];

/** The columns of a `TraceRow`, in its order, without the scores, which a subquery reads. */
export const TRACE_ROW_COLUMNS = [
  ...['n', 'at_ms', 'at_ns', 'key', 'long_id', 'name', 'status', 'start_ms', 'start_ns', 'end_ms'],
  ...['end_ns', 'observations', 'model_usage', 'other_usage', 'key_id', 'source', 'is_ended'],
  ...['newest_ms', 'latency', 'ttft', 'errors', 'session_id', 'user_id', 'environment', 'release'],
  ...['is_skewed', 'facts', 'input_preview', 'output_preview'],
] as const;

/** Indexes of the cells of a `TraceRow` that clients fill. */
export const TRACE = { NAME: 5, MODEL_USAGE: 12, OTHER_USAGE: 13 } as const;

/** The event of each payload field, in the order of the fields; null if no event has the field. */
export type PayloadRefs = readonly (EventRef | null)[];

export function idOfTrace(key: Key, longId: string | null): string {
  return longId ?? (typeof key === 'string' ? key : '');
}

/** `staleBefore`: a trace without an end is interrupted if its newest time is older, in milliseconds since the epoch. */
export function traceOf(row: TraceRow, staleBefore: number): StoredTrace {
  const [, , , key, longId, name, status, startMs, startNs, endMs, endNs, count, ...more] = row;
  const [modelUsage, otherUsage, keyId, source, isEnded, newestMs, latency, ttft, ...rest] = more;
  const [errors, session, user, environment, release, isSkewed, factsText, ...last] = rest;
  const [inputPreview, outputPreview, scores] = last;
  const facts: TraceFacts = factsText === null ? {} : (decodeJsonText(factsText) as TraceFacts);
  const ended = isEnded === null ? endMs !== null : isEnded === 1;
  const earlier = modelUsage ?? otherUsage;
  return {
    id: idOfTrace(key, longId),
    name,
    status: statusOf(status),
    state: stateOf(statusOf(status), ended, newestMs, staleBefore),
    startTime: instantOf(startMs, startNs),
    endTime: instantOf(endMs, endNs),
    latencyMs: latency,
    ttftMs: ttft,
    observationCount: count,
    errorCount: errors ?? 0,
    models: facts.models ?? [],
    sessionId: session,
    userId: user,
    keyId,
    source: sourceOfNumber(source),
    environment,
    release,
    tags: facts.tags ?? [],
    customFields: facts.custom ?? {},
    usage: facts.usage ?? (earlier === null ? null : (decodeJsonText(earlier) as TokenUsage)),
    cost: facts.cost ?? null,
    scores: scoresFromColumn(scores),
    inputPreview,
    outputPreview,
    clockSkew: isSkewed === 1,
  };
}

export function stateOf(
  status: ObservationStatus | null,
  isEnded: boolean,
  newestMs: number | null,
  staleBefore: number,
): TraceState {
  if (status === 'error') return 'error';
  if (isEnded) return 'finished';
  return newestMs !== null && newestMs < staleBefore ? 'interrupted' : 'running';
}

/** The trace of an observation. `newestMs` is its newest time; see `traceOf` for `staleBefore`. */
export type TraceOfRow = {
  readonly projectId: string;
  readonly traceId: string;
  readonly newestMs: number | null;
  readonly staleBefore: number;
};

export function observationOf<B extends BatchRef>(
  { projectId, traceId, newestMs, staleBefore }: TraceOfRow,
  row: ObservationRow,
  state: RowState<B>,
  payloadRefs: PayloadRefs,
): StoredObservation {
  const [key, longId, , version, flags, parent, name, kind, status, ...times] = row;
  const [startMs, startNs, endMs, endNs, ...texts] = times;
  const [model, usage, session, user, error, custom, external, details] = texts;
  const id = idOf(traceId, key, longId);
  const parentId = parentFromColumn(traceId, parent);
  const narrow = {
    projectId,
    traceId,
    id,
    parentId,
    name,
    kind: kindOf(kind),
    status: statusOf(status),
    state: stateOf(statusOf(status), isEnded(flags), newestMs, staleBefore),
    startTime: instantOf(startMs, startNs),
    endTime: instantOf(endMs, endNs),
    ended: isEnded(flags),
    model,
    usage: parsed<TokenUsage>(usage),
    sessionId: session,
    userId: user,
    error: parsed<ObservationError>(error),
    external: externalFromColumn(external, traceId, id, parentId),
    details: detailsFromColumn(details),
    version: String(version),
    source: sourceOfNumber(sourceNumberOf(flags)),
    payload: payloadOf(payloadRefs),
    createdAt: state.createdAt,
    updatedAt: state.updatedAt,
  };
  if (custom !== null && custom.length > LARGE_TEXT) return withCustomFieldsText(narrow, custom);
  return { ...narrow, customFields: parsed(custom) };
}

/** Longer custom fields, in characters, are parsed on first use. */
const LARGE_TEXT = 65_536;

function payloadOf(refs: PayloadRefs): Partial<Record<PayloadField, EventRef>> {
  const payload: Partial<Record<PayloadField, EventRef>> = {};
  for (const [i, field] of PAYLOAD_FIELDS.entries()) {
    const ref = refs[i];
    if (ref !== null && ref !== undefined) payload[field] = ref;
  }
  return payload;
}

function instantOf(ms: number | null, ns: number | null): Instant | null {
  return ms === null ? null : { ms, ns: ns ?? 0 };
}

function parsed<T>(text: string | null): T | null {
  return text === null ? null : (decodeJsonText(text) as T);
}
