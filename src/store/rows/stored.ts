import { withCustomFieldsText } from '../../model/custom-fields.ts';
import { decodeJsonText } from '../../model/json/decode.ts';
import type {
  Instant,
  ObservationError,
  PayloadField,
  TokenUsage,
} from '../../model/observation.ts';
import { PAYLOAD_FIELDS } from '../../model/observation.ts';
import type { EventRef, StoredObservation, StoredTrace } from '../store.ts';
import type { BatchRef } from './event-rank.ts';
import type { Key, ObservationRow, RowState } from './observation-row.ts';
import {
  externalFromColumn,
  idOf,
  isEnded,
  kindOf,
  parentFromColumn,
  sourceOfFlags,
  statusOf,
} from './observation-row.ts';
import { sumsOf } from './trace-sums.ts';

/** A trace as a listing reads it. */
export type TraceRow = readonly [
  n: number,
  key: Key,
  longId: string | null,
  atMs: number,
  atNs: number,
  name: string | null,
  status: number | null,
  startMs: number | null,
  startNs: number | null,
  endMs: number | null,
  endNs: number | null,
  observations: number,
  modelUsage: string | null,
  otherUsage: string | null,
];
/** The batch and position of each payload field's event, null where none has it. */
export type PayloadRefs = readonly (readonly [batchId: string, position: number] | null)[];

export function idOfTrace(key: Key, longId: string | null): string {
  return longId ?? (typeof key === 'string' ? key : '');
}

export function traceOf(row: TraceRow): StoredTrace {
  const [, key, longId, , , name, status, startMs, startNs, endMs, endNs, count, model, other] =
    row;
  return {
    id: idOfTrace(key, longId),
    name,
    status: statusOf(status),
    startTime: instantOf(startMs, startNs),
    endTime: instantOf(endMs, endNs),
    observationCount: count,
    usage: model === null && other === null ? null : sumsOf(model ?? other),
  };
}

/** `payloadRefs`: the events that hold the payload fields, in the order of the fields. */
export function observationOf<B extends BatchRef>(
  projectId: string,
  traceId: string,
  row: ObservationRow,
  state: RowState<B>,
  payloadRefs: PayloadRefs,
): StoredObservation {
  const [key, longId, , version, flags, parent, name, kind, status] = row;
  const [startMs, startNs, endMs, endNs] = row.slice(9, 13) as (number | null)[];
  const [model, usage, session, user, error, custom, external] = row.slice(13) as (string | null)[];
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
    startTime: instantOf(startMs, startNs),
    endTime: instantOf(endMs, endNs),
    ended: isEnded(flags),
    model: model ?? null,
    usage: parsed<TokenUsage>(usage),
    sessionId: session ?? null,
    userId: user ?? null,
    error: parsed<ObservationError>(error),
    external: externalFromColumn(external ?? null, traceId, id, parentId),
    version: String(version),
    source: sourceOfFlags(flags),
    payload: payloadOf(payloadRefs),
    createdAt: state.createdAt,
    updatedAt: state.updatedAt,
  };
  if ((custom?.length ?? 0) > LARGE_TEXT) return withCustomFieldsText(narrow, custom ?? '{}');
  return { ...narrow, customFields: parsed(custom) };
}

/** Characters from which custom fields are only parsed when somebody wants to see one of them. */
const LARGE_TEXT = 65_536;

function payloadOf(refs: PayloadRefs): Partial<Record<PayloadField, EventRef>> {
  const payload: Partial<Record<PayloadField, EventRef>> = {};
  for (const [i, field] of PAYLOAD_FIELDS.entries()) {
    const ref = refs[i];
    if (ref !== null && ref !== undefined) payload[field] = { batchId: ref[0], position: ref[1] };
  }
  return payload;
}

function instantOf(ms: number | null | undefined, ns: number | null | undefined): Instant | null {
  return ms === null || ms === undefined ? null : { ms, ns: ns ?? 0 };
}

function parsed<T>(text: string | null | undefined): T | null {
  return text === null || text === undefined ? null : (decodeJsonText(text) as T);
}
