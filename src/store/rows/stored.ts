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
  detailsFromColumn,
  externalFromColumn,
  idOf,
  isEnded,
  kindOf,
  parentFromColumn,
  sourceOfFlags,
  statusOf,
} from './observation-row.ts';
import { sumsOf } from './trace-sums.ts';

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
  modelUsage: string | null,
  otherUsage: string | null,
];
/** Indexes of the cells of a `TraceRow` that clients fill. */
export const TRACE = { NAME: 5, MODEL_USAGE: 12, OTHER_USAGE: 13 } as const;

/** The event of each payload field, in the order of the fields; null if no event has the field. */
export type PayloadRefs = readonly (EventRef | null)[];

export function idOfTrace(key: Key, longId: string | null): string {
  return longId ?? (typeof key === 'string' ? key : '');
}

export function traceOf(row: TraceRow): StoredTrace {
  const [, , , key, longId, name, status, startMs, startNs, endMs, endNs, ...sums] = row;
  const [observationCount, modelUsage, otherUsage] = sums;
  const usage = modelUsage ?? otherUsage;
  return {
    id: idOfTrace(key, longId),
    name,
    status: statusOf(status),
    startTime: instantOf(startMs, startNs),
    endTime: instantOf(endMs, endNs),
    observationCount,
    usage: usage === null ? null : sumsOf(usage),
  };
}

export function observationOf<B extends BatchRef>(
  projectId: string,
  traceId: string,
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
    source: sourceOfFlags(flags),
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
