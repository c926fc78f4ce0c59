import { createHash } from 'node:crypto';
import type { ObservationDetails } from '../../model/details.ts';
import { DETAIL_NAMES } from '../../model/details.ts';
import type {
  Instant,
  Observation,
  ObservationKind,
  ObservationSource,
  ObservationStatus,
} from '../../model/observation.ts';
import {
  OBSERVATION_KINDS,
  OBSERVATION_SOURCES,
  OBSERVATION_STATUSES,
  PAYLOAD_FIELDS,
} from '../../model/observation.ts';
import type { BatchRef, EventMark, Version } from './event-rank.ts';
import { MARK, versionOf } from './event-rank.ts';
import type { MergedRow, Value } from './merge.ts';
import { FIRST_DETAIL, FIRST_PAYLOAD, isInstant, marksFromText, marksToText } from './merge.ts';

/** An id as it is indexed: the id itself, its part after the trace's id (`:…`), or the hash of a long id. */
export type Key = string | Uint8Array;

/** Bits of `flags`: terminal, ended, two bits of the source, one bit for each payload field, sent twice. */
const TERMINAL = 1;
const ENDED = 2;
const SOURCE_SHIFT = 2;
const PAYLOAD_SHIFT = 4;
const SENT_TWICE = 1 << 16;

/**
 * A row of `observations` without its number; also the form in which an event crosses to the thread that merges rows.
 * A tuple, because every observation becomes one.
 */
export type ObservationRow = [
  key: Key,
  longId: string | null,
  position: number,
  version: Version,
  flags: number,
  parent: string | Uint8Array | null,
  name: string | null,
  kind: number | null,
  status: number | null,
  startMs: number | null,
  startNs: number | null,
  endMs: number | null,
  endNs: number | null,
  model: string | null,
  usage: string | null,
  session: string | null,
  user: string | null,
  error: string | null,
  custom: string | null,
  external: string | null,
  details: string | null,
];
/** Indexes of the cells of an `ObservationRow`. */
export const ROW = {
  KEY: 0,
  LONG_ID: 1,
  POSITION: 2,
  VERSION: 3,
  FLAGS: 4,
  PARENT: 5,
  NAME: 6,
  KIND: 7,
  STATUS: 8,
  START_MS: 9,
  START_NS: 10,
  END_MS: 11,
  END_NS: 12,
  MODEL: 13,
  USAGE: 14,
  SESSION: 15,
  USER: 16,
  ERROR: 17,
  CUSTOM: 18,
  EXTERNAL: 19,
  DETAILS: 20,
} as const;
export const ROW_COLUMNS =
  'key, long_id, position, version, flags, parent, name, kind, status, start_ms, start_ns, end_ms, ' +
  'end_ns, model, usage, session, user, error, custom, external, details';
export const ROW_LENGTH = 21;

export type RowCell = ObservationRow[number];

/** Rows one after another, without a list for each: they cost least on their way to a thread. */
export type FlatRows = readonly RowCell[];

/** The row that begins at an index. */
export function rowAt(rows: FlatRows, at: number): ObservationRow {
  return rows.slice(at, at + ROW_LENGTH) as ObservationRow;
}

/** The key at an index. */
export function rowKeyAt(rows: FlatRows, at: number): Key {
  return rows[at] as Key;
}

/** The cells of a row that depend on the store, and `merged`: the winning events, if there are several. */
export type RowState<B extends BatchRef> = {
  batch: B;
  createdAt: number;
  updatedAt: number;
  merged: string | null;
};

export function rowOf(
  observation: Observation,
  traceId: string,
  position: number,
  source: ObservationSource,
): ObservationRow {
  const { id, parentId, startTime, endTime } = observation;
  const key = observationKey(traceId, id);
  const parent = parentId === null ? null : parentToColumn(traceId, parentId);
  return [
    key,
    typeof key === 'string' ? null : id,
    position,
    versionOf(observation.version),
    flagsOf(observation, source),
    parent,
    observation.name,
    observation.kind === null ? null : OBSERVATION_KINDS.indexOf(observation.kind),
    observation.status === null ? null : OBSERVATION_STATUSES.indexOf(observation.status),
    startTime === null ? null : startTime.ms,
    startTime === null ? null : startTime.ns,
    endTime === null ? null : endTime.ms,
    endTime === null ? null : endTime.ns,
    observation.model,
    jsonOf(observation.usage),
    observation.sessionId,
    observation.userId,
    jsonOf(observation.error),
    observation.customFieldsText ?? jsonOf(observation.customFields),
    externalToColumn(observation.external, traceId, key, parent),
    jsonOf(observation.details),
  ];
}

function flagsOf(observation: Observation, source: ObservationSource): number {
  return (
    (observation.operation === 'start' ? 0 : TERMINAL) |
    (observation.ended ? ENDED : 0) |
    (OBSERVATION_SOURCES.indexOf(source) << SOURCE_SHIFT) |
    (observation.payloadMask << PAYLOAD_SHIFT) |
    (observation.sentTwice === true ? SENT_TWICE : 0)
  );
}

function jsonOf(value: object | null): string | null {
  return value === null ? null : JSON.stringify(value);
}

/** Longer ids are indexed by their hash; bytes and text never compare equal. */
const LONGEST_KEY = 64;

/** The key of a trace id, or of the id of an observation in an unknown trace. */
export function keyOfId(id: string): Key {
  if (id.length <= LONGEST_KEY && !id.startsWith(':')) return id;
  return createHash('sha256').update(id).digest();
}

/** The id of a trace's key; undefined for a long id, which the key does not have. */
export function idOfKey(key: Key): string | undefined {
  return typeof key === 'string' ? key : undefined;
}

/** A text that is equal for equal keys. */
export function nameOfKey(key: Key): string {
  return typeof key === 'string' ? key : `#${Buffer.from(key).toString('hex')}`;
}

/** The id of an OTLP span begins with the id of its trace, which the trace's row has, so the key leaves it out. */
export function observationKey(traceId: string, id: string): Key {
  return isDerived(traceId, id) ? id.slice(traceId.length) : keyOfId(id);
}

/** A colon, and the id of a span. */
const SPAN_KEY = 17;

/** Whether a key or the column of a parent is the short form of an id that begins with the id of the trace. */
export function isSpanKey(traceId: string, key: Key | null): key is string {
  return (
    typeof key === 'string' &&
    key.length === SPAN_KEY &&
    traceId.length + SPAN_KEY <= LONGEST_KEY &&
    key.charCodeAt(0) === 58
  );
}

function isDerived(traceId: string, id: string): boolean {
  return (
    id.length === traceId.length + SPAN_KEY &&
    id.length <= LONGEST_KEY &&
    id.charCodeAt(traceId.length) === 58 &&
    // Hot path, runs for every id and parent: this comparison takes a third of `startsWith`.
    id.slice(0, traceId.length) === traceId
  );
}

export function idOf(traceId: string, key: Key, longId: string | null): string {
  if (longId !== null) return longId;
  if (typeof key !== 'string') return '';
  return key.startsWith(':') ? traceId + key : key;
}

function parentToColumn(traceId: string, parentId: string): string | Uint8Array {
  if (isDerived(traceId, parentId)) return parentId.slice(traceId.length);
  return parentId.startsWith(':') ? Buffer.from(parentId) : parentId;
}

export function parentFromColumn(
  traceId: string,
  parent: string | Uint8Array | null,
): string | null {
  if (parent === null) return null;
  if (typeof parent !== 'string') return Buffer.from(parent).toString();
  return parent.startsWith(':') ? traceId + parent : parent;
}

/** The external ids of an OTLP span follow from the row: `p` with a parent, `s` without. */
export const DERIVED = 's';
const DERIVED_WITH_PARENT = 'p';

/** Whether the external ids follow from the row: the trace, the span, and its parent if it has one. */
export function isDerivedWord(column: string): boolean {
  return column === DERIVED || column === DERIVED_WITH_PARENT;
}

function externalToColumn(
  external: Observation['external'],
  traceId: string,
  key: Key,
  parent: Key | null,
): string | null {
  if (external === null) return null;
  if (!isDerivedExternal(external, traceId, key, parent)) return JSON.stringify(external);
  return parent === null ? DERIVED : DERIVED_WITH_PARENT;
}

/** Equals a comparison with `derivedExternal`. Hot path, runs for every span: no object is made. */
function isDerivedExternal(
  external: Readonly<Record<string, string>>,
  traceId: string,
  key: Key,
  parent: Key | null,
): boolean {
  if (external.trace_id !== traceId || !isSpanKey(traceId, key)) return false;
  if (external.span_id !== key.slice(1)) return false;
  if (parent === null) return Object.keys(external).length === 2;
  if (!isSpanKey(traceId, parent) || external.parent_span_id !== parent.slice(1)) return false;
  return Object.keys(external).length === 3;
}

export function externalFromColumn(
  text: string | null,
  traceId: string,
  id: string,
  parentId: string | null,
): Readonly<Record<string, string>> | null {
  if (text === null) return null;
  if (text === DERIVED) return derivedExternal(traceId, id, null) ?? null;
  if (text === DERIVED_WITH_PARENT) return derivedExternal(traceId, id, parentId) ?? null;
  return JSON.parse(text) as Record<string, string>;
}

function derivedExternal(
  traceId: string,
  id: string,
  parentId: string | null,
): Record<string, string> | undefined {
  if (!isDerived(traceId, id) || (parentId !== null && !isDerived(traceId, parentId)))
    return undefined;
  const external = { trace_id: traceId, span_id: id.slice(traceId.length + 1) };
  if (parentId === null) return external;
  return { ...external, parent_span_id: parentId.slice(traceId.length + 1) };
}

/** A row and its state in the form that `merge` takes. */
export function toMerged<B extends BatchRef>(
  row: ObservationRow,
  state: RowState<B>,
): MergedRow<B> {
  const flags = row[ROW.FLAGS];
  const terminal = (flags & TERMINAL) === 0 ? 0 : 1;
  const top: EventMark<B> = [state.batch, row[ROW.POSITION], row[ROW.VERSION], terminal];
  const values: Value[] = [
    row[ROW.PARENT],
    row[ROW.NAME],
    row[ROW.KIND],
    row[ROW.STATUS],
    instantOf(row[ROW.START_MS], row[ROW.START_NS]),
    instantOf(row[ROW.END_MS], row[ROW.END_NS]),
    row[ROW.MODEL],
    row[ROW.USAGE],
    row[ROW.SESSION],
    row[ROW.USER],
    row[ROW.ERROR],
    row[ROW.CUSTOM],
    row[ROW.EXTERNAL],
  ];
  for (let i = 0; i < PAYLOAD_FIELDS.length; i++) {
    values.push((flags & (1 << (PAYLOAD_SHIFT + i))) === 0 ? null : 1);
  }
  pushDetails(values, row[ROW.DETAILS]);
  return {
    values,
    marks: marksFromText(state.merged, top, values),
    top,
    source: (flags >> SOURCE_SHIFT) & 3,
    ended: (flags & ENDED) !== 0,
    sentTwice: (flags & SENT_TWICE) !== 0,
    createdAt: state.createdAt,
    updatedAt: state.updatedAt,
  };
}

/** The events that hold the payload fields, in the order of the fields. */
export function payloadMarks<B extends BatchRef>(
  row: ObservationRow,
  state: RowState<B>,
): readonly (EventMark<B> | null)[] {
  return toMerged(row, state).marks.slice(FIRST_PAYLOAD, FIRST_DETAIL);
}

/** The events that a row has its fields from, each once. */
export function eventMarks<B extends BatchRef>(
  row: ObservationRow,
  state: RowState<B>,
): readonly EventMark<B>[] {
  const { marks, top } = toMerged(row, state);
  const events = new Map<string, EventMark<B>>();
  for (const mark of [...marks, top]) {
    if (mark !== null) events.set(`${mark[MARK.BATCH]} ${mark[MARK.POSITION]}`, mark);
  }
  return [...events.values()];
}

function instantOf(ms: number | null, ns: number | null): Instant | null {
  return ms === null ? null : { ms, ns: ns ?? 0 };
}

/** The inverse of `toMerged`, with the ids, which never change. */
export function fromMerged<B extends BatchRef>(
  merged: MergedRow<B>,
  key: Key,
  longId: string | null,
): { row: ObservationRow; state: RowState<B> } {
  const { values, top } = merged;
  let flags = top[MARK.TERMINAL] | (merged.ended ? ENDED : 0) | (merged.source << SOURCE_SHIFT);
  if (merged.sentTwice) flags |= SENT_TWICE;
  for (let i = 0; i < PAYLOAD_FIELDS.length; i++) {
    if (values[FIRST_PAYLOAD + i] !== null) flags |= 1 << (PAYLOAD_SHIFT + i);
  }
  const [parent, name, kind, status, start, end, ...texts] = values.slice(0, FIRST_PAYLOAD);
  const row = [
    ...[key, longId, top[MARK.POSITION], top[MARK.VERSION], flags, parent, name, kind, status],
    ...[...cellsOf(start), ...cellsOf(end), ...texts, detailsToColumn(values)],
  ] as ObservationRow;
  const { createdAt, updatedAt } = merged;
  return {
    row,
    state: { batch: top[MARK.BATCH], createdAt, updatedAt, merged: marksToText(merged) },
  };
}

/** Each detail is a value of its own, as JSON. */
function pushDetails(values: Value[], column: string | null): void {
  const details = detailsFromColumn(column);
  for (const name of DETAIL_NAMES) {
    const detail = details?.[name];
    values.push(detail === undefined ? null : JSON.stringify(detail));
  }
}

function detailsToColumn(values: readonly Value[]): string | null {
  const members: string[] = [];
  for (const [i, name] of DETAIL_NAMES.entries()) {
    const detail = values[FIRST_DETAIL + i];
    if (typeof detail === 'string') members.push(`"${name}":${detail}`);
  }
  return members.length === 0 ? null : `{${members.join(',')}}`;
}

export function detailsFromColumn(column: string | null): ObservationDetails | null {
  // No key is of a client, so JSON.parse is safe (`decodeJson`); a preview mostly has line ends, which cost five times as much there.
  return column === null ? null : (JSON.parse(column) as ObservationDetails);
}

function cellsOf(value: Value | undefined): readonly [ms: number | null, ns: number | null] {
  return isInstant(value) ? [value.ms, value.ns] : [null, null];
}

export function kindOf(number: number | null): ObservationKind | null {
  return number === null ? null : (OBSERVATION_KINDS[number] ?? null);
}

export function statusOf(number: number | null): ObservationStatus | null {
  return number === null ? null : (OBSERVATION_STATUSES[number] ?? null);
}

/** Whether the client sends the observation as a run and as a span (src/store/rows/copies.ts). */
export function isMarkedTwice(flags: number): boolean {
  return (flags & SENT_TWICE) !== 0;
}

export function isEnded(flags: number): boolean {
  return (flags & ENDED) !== 0;
}

/** The position of a row's source in the list of sources. */
export function sourceNumberOf(flags: number): number {
  return (flags >> SOURCE_SHIFT) & 3;
}

export function numberOfSource(source: string): number {
  const names: readonly string[] = OBSERVATION_SOURCES;
  return names.indexOf(source);
}

export function sourceOfNumber(number: number | null): ObservationSource {
  return OBSERVATION_SOURCES[number ?? 0] ?? 'native';
}
