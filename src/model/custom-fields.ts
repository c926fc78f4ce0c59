/**
 * Custom fields (spec 2.6): string values merged over the places they may stand in. Values are never
 * echoed into an error or a log by anything here.
 */

/** Key and decoded value, in the order they were sent; of a repeated key the last one counts. */
export type CustomFieldLayer = Iterable<readonly [key: string, value: unknown]>;

/**
 * Merges layers, later ones winning: context metadata, effective metadata, event level. An ignored value
 * (null, nested, blank) and an ignored key (reserved, secret-like) never erase what an earlier layer gave.
 * The result has no prototype; null when it would be empty.
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

/** True where a custom field of this name is kept: neither reserved nor secret-like. */
export function isCustomFieldKey(key: string): boolean {
  return !RESERVED_KEYS.has(key) && !isSecretLike(key);
}

function keptFields(layer: CustomFieldLayer): Map<string, string> {
  const kept = new Map<string, string>();
  for (const [key, value] of layer) {
    const text = customFieldText(value);
    // The last value of a repeated key counts, also where it is one that is ignored.
    if (text === undefined) kept.delete(key);
    else if (isCustomFieldKey(key)) kept.set(key, text);
  }
  return kept;
}

/**
 * A value as its custom field shows it; undefined where it is ignored. A number's source text is what
 * JavaScript prints wherever it survives parsing and printing, so printing it covers both cases.
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

/** Names that belong to the event or its tenant, and those that would touch an object's prototype. */
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

const SECRET_PAIRS: ReadonlySet<string> = new Set([
  'api key',
  'private key',
  'access key',
  'client secret',
]);

/** Splits at case changes, `_`, `-`, `.` and spaces: `input_tokens` and `author` are no secrets. */
function isSecretLike(key: string): boolean {
  const words = key
    .replace(/([\p{Ll}\d])(\p{Lu})/gu, '$1 $2')
    .replace(/(\p{Lu})(\p{Lu}\p{Ll})/gu, '$1 $2')
    .toLowerCase()
    .split(/[_\-.\s]+/);
  for (const [i, word] of words.entries()) {
    if (SECRET_WORDS.has(word)) return true;
    const next = words[i + 1];
    if (next !== undefined && SECRET_PAIRS.has(`${word} ${next}`)) return true;
  }
  return false;
}
