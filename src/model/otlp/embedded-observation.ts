import { checkedDetails } from '../details.ts';
import { decodeCheckedText } from '../json/checked.ts';
import { isId } from '../json/id.ts';
import { parseVersion } from '../json/version.ts';
import type { Instant, Observation, ObservationError, PayloadField } from '../observation.ts';
import {
  OBSERVATION_KINDS,
  OBSERVATION_OPERATIONS,
  OBSERVATION_STATUSES,
  PAYLOAD_FIELDS,
} from '../observation.ts';
import { renamedUsage } from '../usage.ts';

/**
 * The attribute that carries an observation from one tracectl to another: the fields that no span has, such as its
 * own ids, operation and version. Other readers see an ordinary attribute.
 */
export const EMBEDDED_KEY = 'tracectl.observation';

/** The attributes with the payload fields of an embedded observation. */
export const EMBEDDED_PAYLOAD_KEYS: Readonly<Record<PayloadField, string>> = {
  inputs: 'input.value',
  outputs: 'output.value',
  events: 'tracectl.events',
  metadata: 'metadata',
  context_metadata: 'context_metadata',
};

/** The form of a payload field in its attribute: JSON text, or the content of a JSON string. */
export type EmbeddedForm = 'json' | 'text';

export type EmbeddedFields = Omit<
  Observation,
  'index' | 'name' | 'customFields' | 'customFieldsText' | 'sentTwice' | 'payloadMask'
> & {
  /** The name if the span cannot carry it: null or an empty string. Undefined: the span's name. */
  readonly name: string | null | undefined;
  readonly forms: Readonly<Partial<Record<PayloadField, EmbeddedForm>>>;
};

/** The attribute's text. Absent fields are left out; an instant is a pair of milliseconds and nanoseconds. */
export function encodeEmbedded(fields: EmbeddedFields): string {
  const { startTime, endTime } = fields;
  // JSON.stringify leaves out undefined members.
  return JSON.stringify({
    id: fields.id,
    traceId: fields.traceId ?? undefined,
    parentId: fields.parentId ?? undefined,
    operation: fields.operation,
    version: fields.version,
    name: fields.name,
    kind: fields.kind ?? undefined,
    status: fields.status ?? undefined,
    startTime: startTime === null ? undefined : [startTime.ms, startTime.ns],
    endTime: endTime === null ? undefined : [endTime.ms, endTime.ns],
    ended: fields.ended,
    model: fields.model ?? undefined,
    usage: fields.usage ?? undefined,
    sessionId: fields.sessionId ?? undefined,
    userId: fields.userId ?? undefined,
    error: fields.error ?? undefined,
    external: fields.external ?? undefined,
    details: fields.details ?? undefined,
    forms: fields.forms,
  });
}

/**
 * The fields in the attribute's text; undefined if it is invalid. Any client may send the attribute, so every field
 * is checked by the rules for native events.
 */
export function decodeEmbedded(text: string): EmbeddedFields | undefined {
  const found = objectOf(text);
  if (found === undefined) return undefined;
  const fields = {
    id: found.id,
    traceId: found.traceId ?? null,
    parentId: found.parentId ?? null,
    operation: found.operation,
    version: found.version,
    name: found.name,
    kind: found.kind ?? null,
    status: found.status ?? null,
    startTime: instantOf(found.startTime),
    endTime: instantOf(found.endTime),
    ended: found.ended,
    model: found.model ?? null,
    usage: found.usage ?? null,
    sessionId: found.sessionId ?? null,
    userId: found.userId ?? null,
    error: errorOf(found.error),
    external: found.external ?? null,
    details: checkedDetails(found.details),
    forms: found.forms ?? {},
  };
  if (!isSound(fields)) return undefined;
  const sound = fields as EmbeddedFields;
  // Earlier versions have other names of counts.
  return sound.usage === null ? sound : { ...sound, usage: renamedUsage(sound.usage) };
}

function objectOf(text: string): Record<string, unknown> | undefined {
  const value = decodeCheckedText(text, MAX_DEPTH);
  return isRecord(value) ? value : undefined;
}

/** The text is an object of objects of strings and pairs. */
const MAX_DEPTH = 4;

type Unchecked = Readonly<Record<keyof EmbeddedFields, unknown>>;

function isSound(fields: Unchecked): boolean {
  return (
    isIdText(fields.id) &&
    (fields.traceId === null || isIdText(fields.traceId)) &&
    (fields.parentId === null || isIdText(fields.parentId)) &&
    OBSERVATION_OPERATIONS.some((operation) => operation === fields.operation) &&
    typeof fields.version === 'string' &&
    parseVersion(fields.version) === fields.version &&
    (fields.name === undefined || isTextOrNull(fields.name)) &&
    (fields.kind === null || OBSERVATION_KINDS.some((kind) => kind === fields.kind)) &&
    (fields.status === null || OBSERVATION_STATUSES.some((status) => status === fields.status)) &&
    fields.startTime !== undefined &&
    fields.endTime !== undefined &&
    typeof fields.ended === 'boolean' &&
    isTextOrNull(fields.model) &&
    isUsage(fields.usage) &&
    isTextOrNull(fields.sessionId) &&
    isTextOrNull(fields.userId) &&
    fields.error !== undefined &&
    isTexts(fields.external) &&
    isForms(fields.forms)
  );
}

function isIdText(value: unknown): boolean {
  return typeof value === 'string' && isId(value);
}

function isTextOrNull(value: unknown): boolean {
  return value === null || typeof value === 'string';
}

function isUsage(value: unknown): boolean {
  if (value === null) return true;
  if (!isRecord(value)) return false;
  const counts = Object.values(value);
  return counts.length <= MAX_COUNTS && counts.every(Number.isSafeInteger);
}

const MAX_COUNTS = 64;

function isTexts(value: unknown): boolean {
  if (value === null) return true;
  if (!isRecord(value)) return false;
  const texts = Object.values(value);
  return texts.length <= MAX_COUNTS && texts.every((text) => typeof text === 'string');
}

function isForms(value: unknown): boolean {
  if (!isRecord(value)) return false;
  return Object.entries(value).every(
    ([field, form]) =>
      PAYLOAD_FIELDS.some((known) => known === field) && (form === 'json' || form === 'text'),
  );
}

/** Null if absent, undefined if it is no instant of the years 0000 to 9999. */
function instantOf(value: unknown): Instant | null | undefined {
  if (value === undefined) return null;
  if (!Array.isArray(value) || value.length !== 2) return undefined;
  const [ms, ns] = value as [unknown, unknown];
  if (!isWithin(ms, YEAR_0000_MS, YEAR_9999_END_MS) || !isWithin(ns, 0, 999_999)) return undefined;
  return { ms, ns };
}

const YEAR_0000_MS = -62_167_219_200_000;
const YEAR_9999_END_MS = 253_402_300_799_999;

function isWithin(value: unknown, least: number, most: number): value is number {
  return Number.isSafeInteger(value) && Number(value) >= least && Number(value) <= most;
}

function errorOf(value: unknown): ObservationError | null | undefined {
  if (value === undefined) return null;
  if (!isRecord(value)) return undefined;
  const { message = null, type = null, stacktrace = null } = value;
  const isSound = [message, type, stacktrace].every(isTextOrNull);
  return isSound ? ({ message, type, stacktrace } as ObservationError) : undefined;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
