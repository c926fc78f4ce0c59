import { MAX_ID_BYTES } from './json/id.ts';
import type { Observation, ObservationError, TokenUsage } from './observation.ts';

/**
 * Limits of the narrow fields of an observation, in bytes of UTF-8. A narrow field is a copy that stores keep in a row
 * and listings answer; a longer one is cut and ends with `…`, and an empty one is absent. The item itself is accepted
 * and stored in full, as it was sent: its raw event and its payload fields have the whole text.
 */
export const NARROW_LIMITS = {
  /** Name, model, session id, user id, type of an error, and value of a custom field. */
  TEXT: 2_048,
  /** Message of an error, and its stack trace. */
  ERROR: 16_384,
  /** Name of a custom field or of a count of tokens; one with a longer name is left out. */
  KEY: 256,
  /** Names and values of all custom fields; those that do not fit are left out. */
  CUSTOM_FIELDS: 32_768,
} as const;

/** Values that a client's format has and the common form has not. */
const MAX_EXTERNAL = 16;

const ELLIPSIS = '…';
const ELLIPSIS_BYTES = Buffer.byteLength(ELLIPSIS);

/** The same observation with its long fields cut, and without its empty ones. */
export function withinLimits(observation: Observation): Observation {
  if (isClearlyWithin(observation) && !hasEmptyText(observation)) return observation;
  const { customFieldsText: _printed, ...rest } = observation;
  const { name, model, sessionId, userId, error, customFields, external, usage } = observation;
  return {
    ...rest,
    name: textOrNull(name),
    model: textOrNull(model),
    sessionId: textOrNull(sessionId),
    userId: textOrNull(userId),
    error: cutError(error),
    customFields: cutCustomFields(customFields),
    external: cutExternal(external),
    usage: cutUsage(usage),
  };
}

/** Hot path: all narrow texts together are short, whatever their characters are. */
function isClearlyWithin(observation: Observation): boolean {
  const { name, model, sessionId, userId, error, customFields, external, usage } = observation;
  let units = lengthOf(name) + lengthOf(model) + lengthOf(sessionId) + lengthOf(userId);
  if (error !== null) {
    units += lengthOf(error.message) + lengthOf(error.type) + lengthOf(error.stacktrace);
  }
  for (const key in customFields) units += key.length + lengthOf(customFields[key] ?? null);
  let externals = 0;
  for (const key in external) {
    units += key.length + lengthOf(external[key] ?? null);
    externals++;
  }
  for (const key in usage) units += key.length;
  if (externals > MAX_EXTERNAL || units * 3 > NARROW_LIMITS.TEXT) return false;
  return units * 3 <= NARROW_LIMITS.KEY || hasShortKeys(observation);
}

function hasEmptyText({ name, model, sessionId, userId, error }: Observation): boolean {
  return name === '' || model === '' || sessionId === '' || userId === '' || error?.type === '';
}

function hasShortKeys({ customFields, external, usage }: Observation): boolean {
  for (const key in customFields) if (!fits(key, NARROW_LIMITS.KEY)) return false;
  for (const key in external) if (!fits(key, NARROW_LIMITS.KEY)) return false;
  for (const key in usage) if (!fits(key, NARROW_LIMITS.KEY)) return false;
  return true;
}

function lengthOf(text: string | null): number {
  return text === null ? 0 : text.length;
}

/** Cuts at the end of a character, so that the text and its mark are within the limit. */
export function cutText(text: string, limit?: number): string;
export function cutText(text: string | null, limit?: number): string | null;
export function cutText(text: string | null, limit: number = NARROW_LIMITS.TEXT): string | null {
  if (text === null || fits(text, limit)) return text;
  // No character has fewer bytes than units of UTF-16, so the kept part is in the first `limit` units.
  const bytes = Buffer.from(text.slice(0, limit));
  let end = limit - ELLIPSIS_BYTES;
  while (end > 0 && isContinuation(bytes[end])) end--;
  return bytes.toString('utf8', 0, end) + ELLIPSIS;
}

/** No query finds an empty value, and a row without a value is found by `-has:`. */
function textOrNull(text: string | null): string | null {
  return text === '' ? null : cutText(text);
}

function isContinuation(byte = 0): boolean {
  return (byte & 0xc0) === 0x80;
}

/** A unit of UTF-16 has at most three bytes. */
function fits(text: string, limit: number): boolean {
  return text.length * 3 <= limit || (text.length <= limit && Buffer.byteLength(text) <= limit);
}

function cutError(error: ObservationError | null): ObservationError | null {
  if (error === null) return null;
  return {
    message: cutText(error.message, NARROW_LIMITS.ERROR),
    type: textOrNull(error.type),
    stacktrace: cutText(error.stacktrace, NARROW_LIMITS.ERROR),
  };
}

function cutCustomFields(
  fields: Readonly<Record<string, string>> | null,
): Readonly<Record<string, string>> | null {
  if (fields === null) return null;
  const kept: Record<string, string> = Object.create(null);
  let left: number = NARROW_LIMITS.CUSTOM_FIELDS;
  let isEmpty = true;
  for (const [key, value] of Object.entries(fields)) {
    if (!fits(key, NARROW_LIMITS.KEY)) continue;
    const shown = cutText(value);
    const bytes = Buffer.byteLength(key) + Buffer.byteLength(shown);
    if (bytes > left) continue;
    left -= bytes;
    kept[key] = shown;
    isEmpty = false;
  }
  return isEmpty ? null : kept;
}

function cutExternal(
  external: Readonly<Record<string, string>> | null,
): Readonly<Record<string, string>> | null {
  if (external === null) return null;
  const kept = Object.entries(external).filter(([key]) => fits(key, NARROW_LIMITS.KEY));
  // Ids are among the values, which keep the limit of ids.
  return Object.fromEntries(
    kept.slice(0, MAX_EXTERNAL).map(([key, value]) => [key, cutText(value, MAX_ID_BYTES)]),
  );
}

function cutUsage(usage: TokenUsage | null): TokenUsage | null {
  if (usage === null) return null;
  const counts = Object.entries(usage);
  if (counts.every(([name]) => name.length * 3 <= NARROW_LIMITS.KEY)) return usage;
  const kept = counts.filter(([name]) => fits(name, NARROW_LIMITS.KEY));
  return kept.length === 0 ? null : Object.fromEntries(kept);
}
