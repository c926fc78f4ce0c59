import { decodeJsonText } from './json/decode.ts';
import { dividesPair } from './surrogates.ts';

/**
 * Custom fields: string values, merged from several layers (processors/custom_fields/README.md). No error or log
 * message of this file contains a value.
 */

/** Keys and decoded values in the order of the body; the last value of a repeated key counts. */
export type CustomFieldLayer = Iterable<readonly [key: string, value: unknown]>;

/**
 * Merges layers; later ones win: context metadata, effective metadata, event level. Ignored values (null,
 * nested, blank) and ignored keys (reserved, secret-like) erase nothing of an earlier layer. The result has
 * no prototype; it is null if no field is left.
 */
export function mergeCustomFields(
  layers: readonly CustomFieldLayer[],
): Record<string, string> | null {
  const merged: Record<string, string> = Object.create(null);
  let empty = true;
  for (const layer of layers) {
    for (const [key, text] of keptFields(layer)) {
      merged[key] = text;
      empty = false;
    }
  }
  return empty ? null : merged;
}

/** Adds custom fields that are parsed when they are first read: parsing megabytes takes seconds. */
export function withCustomFieldsText<T extends object>(
  rest: T,
  customFieldsText: string,
): T & { customFields: Record<string, string>; customFieldsText: string } {
  return Object.assign(Object.create(PARSES_ON_DEMAND), rest, { customFieldsText });
}

const PARSES_ON_DEMAND = {
  get customFields(): unknown {
    const { customFieldsText } = this as unknown as { customFieldsText: string };
    return decodeJsonText(customFieldsText);
  },
};

/** The custom fields, also of a copy of an object that parses them: a copy has only the text. */
export function customFieldsIn({
  customFields,
  customFieldsText,
}: {
  readonly customFields?: Readonly<Record<string, string>> | null;
  readonly customFieldsText?: string;
}): Readonly<Record<string, string>> {
  if (customFields !== undefined) return customFields ?? {};
  if (customFieldsText === undefined) return {};
  return decodeJsonText(customFieldsText) as Readonly<Record<string, string>>;
}

/** The key is neither reserved nor secret-like. */
function isCustomFieldKey(key: string): boolean {
  return !RESERVED_KEYS.has(key) && !isSecretLike(key);
}

function keptFields(layer: CustomFieldLayer): Map<string, string> {
  const kept = new Map<string, string>();
  for (const [key, value] of layer) {
    const text = customFieldText(value);
    // The last value of a repeated key counts, also if it is an ignored one.
    if (text === undefined) kept.delete(key);
    else if (isCustomFieldKey(key)) kept.set(key, text);
  }
  return kept;
}

/**
 * The text of a custom field; undefined for an ignored value. JavaScript prints a number as its source text if
 * that survives parsing and printing, so printing is right in both cases.
 */
function customFieldText(value: unknown): string | undefined {
  switch (typeof value) {
    case 'string':
      return value.trim() === '' ? undefined : value;
    case 'number':
    case 'bigint':
    case 'boolean':
      return String(value);
    default:
      return undefined;
  }
}

/** Names of fields of the event and its tenant, and names that would change an object's prototype. */
const RESERVED_KEYS: ReadonlySet<string> = new Set([
  '',
  '__proto__',
  'constructor',
  'prototype',
  'custom_fields',
  'id',
  'observation_id',
  'trace_id',
  'project_id',
  'organization_id',
  'kind',
  'run_type',
  'operation',
  'status',
  'name',
  'start_time',
  'end_time',
  'event_version',
  'inputs',
  'outputs',
  'events',
  'metadata',
  'context_metadata',
  'usage',
]);

const SECRET_WORDS: ReadonlySet<string> = new Set([
  'password',
  'passwd',
  'pwd',
  'secret',
  'token',
  'apikey',
  'authorization',
  'cookie',
  'credential',
  'credentials',
  'bearer',
]);

/** Words that make a secret together with a following `key`. */
const SECRET_KEYS: ReadonlySet<string> = new Set(['api', 'private', 'access']);

const LONGEST_WORD = 'authorization'.length;

const SHORTEST_WORD = 3;

/** Matches every secret-like key, and few others, so most keys need no further check. */
const MAY_BE_SECRET = /passw|pwd|secret|token|key|authoriz|cookie|credential|bearer|\u212a/i;

/**
 * Compares the words between case changes, `_`, `-`, `.` and spaces: `input_tokens` and `author` are no secrets.
 * One pass that copies no word of the wrong length, because a key may have megabytes.
 */
function isSecretLike(key: string): boolean {
  if (!MAY_BE_SECRET.test(key)) return false;
  let before = '';
  let start = 0;
  let kind = Kind.SEPARATOR as number;
  for (let at = 0; at <= key.length; at++) {
    const last = kind;
    kind = at < key.length ? kindAt(key, at, last) : Kind.SEPARATOR;
    if (kind === Kind.SEPARATOR || isNewWord(key, at, last, kind)) {
      if (at > start) {
        const word = wordAt(key, start, at);
        if (SECRET_WORDS.has(word) || (word === 'key' && SECRET_KEYS.has(before))) return true;
        before = word;
      }
      start = kind === Kind.SEPARATOR ? at + 1 : at;
    }
  }
  return false;
}

function wordAt(key: string, start: number, end: number): string {
  const length = end - start;
  const isCandidate = length >= SHORTEST_WORD && length <= LONGEST_WORD;
  return isCandidate ? key.slice(start, end).toLowerCase() : '';
}

const Kind = { SEPARATOR: 0, LOWER: 1, UPPER: 2, DIGIT: 3, OTHER: 4 } as const;

/** A word starts at `B` in `aB`, in `1B` and in `ABc`. */
function isNewWord(key: string, at: number, last: number, kind: number): boolean {
  if (kind !== Kind.UPPER || isSecondHalf(key, at)) return false;
  if (last === Kind.LOWER || last === Kind.DIGIT) return true;
  const behind = at + ((key.codePointAt(at) as number) > 0xffff ? 2 : 1);
  return last === Kind.UPPER && behind < key.length && kindAt(key, behind, kind) === Kind.LOWER;
}

function kindAt(key: string, at: number, last: number): number {
  const c = key.charCodeAt(at);
  if (c < 0x80) return ASCII_KINDS[c] as number;
  if (isSecondHalf(key, at)) return last;
  const character = String.fromCodePoint(key.codePointAt(at) as number);
  if (/\p{Ll}/u.test(character)) return Kind.LOWER;
  if (/\p{Lu}/u.test(character)) return Kind.UPPER;
  return /\s/.test(character) ? Kind.SEPARATOR : Kind.OTHER;
}

function isSecondHalf(key: string, at: number): boolean {
  return (key.charCodeAt(at) & 0xfc00) === 0xdc00 && dividesPair(key, at);
}

const ASCII_KINDS = Uint8Array.from({ length: 0x80 }, (_, c) => {
  const character = String.fromCharCode(c);
  if (/[_\-.\s]/.test(character)) return Kind.SEPARATOR;
  if (/[a-z]/.test(character)) return Kind.LOWER;
  if (/[A-Z]/.test(character)) return Kind.UPPER;
  return /\d/.test(character) ? Kind.DIGIT : Kind.OTHER;
});
