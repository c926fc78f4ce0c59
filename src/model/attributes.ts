import type { EventRole, KindRule } from './conventions.ts';
import {
  AGENT_MODELS,
  ERROR_MESSAGES,
  ERROR_STACKTRACES,
  ERROR_TYPES,
  EVENTS,
  FAILURE,
  INPUTS,
  KINDS,
  MEMBER_KEYS,
  MODELS,
  OUTPUTS,
  QUALIFIED_MODEL,
  REQUEST_PARAMETERS,
  SESSIONS,
  USAGE_RECORDS,
  USERS,
} from './conventions.ts';
import type { DetailRule } from './detail-attributes.ts';
import { detailRules } from './detail-attributes.ts';
import { JSON_LISTS, JSON_TEXTS, MIME_TYPES } from './json-conventions.ts';
import type { ObservationKind } from './observation.ts';
import { TRACING_VARIABLES, type TracingVariable } from './sent-twice.ts';
import type { TextField } from './texts.ts';
import {
  CALLS_IN_OUTPUTS,
  DETAILED_USAGE,
  TOKEN_KINDS,
  USAGE_DETAILS,
  USAGE_OBJECTS,
} from './token-conventions.ts';
import type { CountForm, TokenKind } from './usage.ts';
import { kindOfCount } from './usage.ts';

/* The rules by which attributes give the fields of an observation; they follow from the lists of `conventions.ts`. */

/**
 * The attributes that hold custom fields, by layer. Later layers override earlier ones, and `extra.metadata`
 * does not count if a span also has `metadata`.
 */
const CUSTOM_FIELDS: readonly { readonly key: string; readonly layer: CustomFieldLayerName }[] = [
  { key: 'context_metadata.custom_fields', layer: 'context' },
  { key: 'extra.metadata.custom_fields', layer: 'extra' },
  { key: 'metadata.custom_fields', layer: 'metadata' },
  { key: 'custom_fields', layer: 'event' },
];

const CUSTOM_FIELD_PREFIXES = CUSTOM_FIELDS.map(({ key, layer }) => ({ prefix: `${key}.`, layer }));

/** Attributes whose kvlist value may hold `custom_fields`, with the path to it. */
const CUSTOM_FIELDS_WITHIN: readonly {
  readonly key: string;
  readonly layer: CustomFieldLayerName;
  readonly within: readonly string[];
}[] = [
  { key: 'context_metadata', layer: 'context', within: ['custom_fields'] },
  { key: 'extra', layer: 'extra', within: ['metadata', 'custom_fields'] },
  { key: 'extra.metadata', layer: 'extra', within: ['custom_fields'] },
  { key: 'metadata', layer: 'metadata', within: ['custom_fields'] },
];

/** The keys of the attributes that are or may hold `custom_fields`, with the path to it within a kvlist value. */
export const CUSTOM_FIELDS_PATHS: ReadonlyMap<string, readonly string[]> = new Map([
  ...CUSTOM_FIELDS.map(({ key }) => [key, []] as const),
  ...CUSTOM_FIELDS_WITHIN.map(({ key, within }) => [key, within] as const),
]);

export type CustomFieldLayerName = 'context' | 'extra' | 'metadata' | 'event';
export const CUSTOM_FIELD_LAYERS = ['context', 'extra', 'metadata', 'event'] as const;

const EVENT_ROLES: ReadonlyMap<string, EventRole> = new Map(Object.entries(EVENTS));

/** The outputs of a model call, with the places of the object that has its tokens and its model. */
export type CallOutputRule = {
  readonly role: 'call_output';
  readonly places: readonly (readonly string[])[];
  readonly usage: readonly string[];
  readonly form: CountForm;
  readonly precedes?: boolean;
};

/** A field that an attribute can give. `rank` is its place in its list: the lowest with a value wins. */
export type AttributeRule =
  | { readonly role: 'input' | 'output'; readonly rank: number; readonly family: boolean }
  | {
      readonly role: 'model' | 'session' | 'user' | 'message' | 'type' | 'stacktrace';
      readonly rank: number;
    }
  | { readonly role: 'tokens'; readonly rank: number; readonly kind: TokenKind }
  /** `within`: the object of the counts that the value is, if it is not the object of all counts. */
  | { readonly role: 'usage'; readonly rank: number; readonly within?: string }
  | { readonly role: 'level' | 'level_message' | 'qualified_model' | 'parameters' }
  | { readonly role: 'usage_record'; readonly value: string }
  | CallOutputRule
  | DetailRule
  | { readonly role: 'context_metadata' }
  /** The members of the value have rules of their own; see `memberRules`. */
  | { readonly role: 'members' }
  /** A whole observation that another tracectl embedded; see otlp/embedded-observation.ts. */
  | { readonly role: 'embedded' }
  | { readonly role: 'original_parent' }
  | { readonly role: 'ignored' }
  | { readonly role: 'tracing'; readonly variable: TracingVariable }
  | { readonly role: 'kind'; readonly rank: number; readonly kindOf: KindRule }
  | {
      readonly role: 'custom_fields';
      readonly layer: CustomFieldLayerName;
      /** Keys on the path to `custom_fields` within a kvlist value. */
      readonly within?: readonly string[];
      /** The custom field's name, if the attribute key ends with it. */
      readonly name?: string;
    };

/** An attribute key with everything that depends on the key only. */
export type AttributeKey = {
  readonly text: string;
  readonly rules: readonly AttributeRule[];
  /** A rule reads the value; other rules only need to know that it is not empty. */
  readonly needsValue: boolean;
  /** The role of events with this name. */
  readonly event: EventRole | undefined;
  /** The JSON that a text in its value is; undefined if it is plain text. */
  readonly jsonForm: JsonForm | undefined;
  /** The field of the texts in its value. */
  readonly field: TextField;
  /** Keys on the path to custom fields within a kvlist value. */
  readonly within: readonly string[] | undefined;
};

/** The attribute with the span id of a dropped parent; see `FormatModule.reparent`. */
export const ORIGINAL_PARENT_KEY = 'tracectl.original_parent_id';

/** The attribute with the malformed attributes of the log record that a span was made of; see `ignoredNotesIn`. */
export const IGNORED_KEY = 'tracectl.ignored';

const NO_RULES: readonly AttributeRule[] = [];
const FAMILIES: { prefix: string; rule: AttributeRule }[] = [];
const EXACT = buildRules();

/** By attribute whose object has members with rules. */
const MEMBERS = membersByKey();

/** A cache: an application has few keys, and sends the same ones with every span. */
const known = new Map<string, AttributeKey>();
const MAX_KNOWN = 4096;

export function attributeKey(text: string): AttributeKey {
  const found = known.get(text);
  if (found !== undefined) return found;
  const rules = EXACT.get(text) ?? rulesOfFamily(text);
  const key = {
    text,
    rules,
    needsValue: rules.some((rule) => !VALUELESS.has(rule.role)),
    event: EVENT_ROLES.get(text),
    jsonForm: jsonFormOf(text),
    field: textFieldOf(text, rules),
    within: stepsOf(rules),
  };
  if (known.size >= MAX_KNOWN) known.clear();
  if (text.length <= 256) known.set(text, key);
  return key;
}

function stepsOf(rules: readonly AttributeRule[]): readonly string[] | undefined {
  for (const rule of rules) if (rule.role === 'custom_fields') return rule.within;
  return undefined;
}

function textFieldOf(text: string, rules: readonly AttributeRule[]): TextField {
  const named = TEXT_FIELDS_OF_KEYS.get(text);
  if (named !== undefined) return named;
  for (const rule of rules) {
    const isWithin = rule.role === 'custom_fields' && rule.within !== undefined;
    const field = isWithin ? undefined : TEXT_FIELDS_OF_ROLES.get(rule.role);
    if (field !== undefined) return field;
  }
  return 'attributes';
}

const TEXT_FIELDS_OF_KEYS: ReadonlyMap<string, TextField> = new Map([
  ['metadata', 'metadata'],
  ['extra.metadata', 'metadata'],
  ['tracectl.events', 'events'],
] satisfies [string, TextField][]);

const TEXT_FIELDS_OF_ROLES: ReadonlyMap<AttributeRule['role'], TextField> = new Map([
  ['input', 'inputs'],
  ['output', 'outputs'],
  ['message', 'error'],
  ['type', 'error'],
  ['stacktrace', 'error'],
  ['level_message', 'error'],
  ['context_metadata', 'metadata'],
  ['custom_fields', 'custom_fields'],
  ['original_parent', 'fixed'],
  ['ignored', 'fixed'],
] satisfies [AttributeRule['role'], TextField][]);

const VALUELESS: ReadonlySet<AttributeRule['role']> = new Set([
  'input',
  'output',
  'context_metadata',
]);

/** The kind that an attribute's value names; undefined for an unknown value. */
export function kindOfAttribute(rule: KindRule, text: string): ObservationKind | undefined {
  if (rule.presence !== undefined) return rule.presence;
  if (rule.vercel === true) return vercelKind(text);
  const value = (text.startsWith('"') ? text.replaceAll('"', '') : text).toLowerCase();
  if (rule.values !== undefined && Object.hasOwn(rule.values, value)) return rule.values[value];
  return Object.entries(rule.endings ?? {}).find(([ending]) => value.endsWith(ending))?.[1];
}

/** An `operation.name` is the operation id, a space and the function id. */
function vercelKind(text: string): ObservationKind | undefined {
  const [operation = ''] = text.split(' ', 1);
  if (!operation.startsWith('ai.')) return undefined;
  if (operation === 'ai.toolCall') return 'tool';
  if (operation.startsWith('ai.embed'))
    return operation.endsWith('.doEmbed') ? 'embedding' : 'chain';
  if (operation.endsWith('.doGenerate') || operation.endsWith('.doStream')) return 'generation';
  return 'chain';
}

/** The rules for an attribute of an exception event. */
export function exceptionRules(key: string): readonly AttributeRule[] {
  return EXACT.get(`event:${key}`) ?? NO_RULES;
}

/** The rules for a member of an attribute's object; the path of a member of a member has a dot. */
export function memberRules(key: string, path: string): readonly AttributeRule[] {
  return EXACT.get(`${key}:${path}`) ?? NO_RULES;
}

/** Whether members of the members of an attribute's object have rules. */
export function hasInnerMembers(key: string): boolean {
  return MEMBERS.get(key)?.hasInner === true;
}

/** Finds out without reading the JSON whether the object of an attribute may have a member with rules. */
export function mayHaveMembers(key: string, text: string): boolean {
  return MEMBERS.get(key)?.names.test(text) === true;
}

type Members = {
  /** Finds the quoted name of any of them. */
  readonly names: RegExp;
  /** Some are members of members. */
  readonly hasInner: boolean;
};

function membersByKey(): ReadonlyMap<string, Members> {
  const known = [...EXACT.keys()];
  return new Map(
    MEMBER_KEYS.map((key) => {
      const start = `${key}:`;
      const paths = known
        .filter((each) => each.startsWith(start))
        .map((each) => each.slice(start.length));
      const names = paths.map((path) => path.replace(/^.*\./, '')).join('|');
      const hasInner = paths.some((path) => path.includes('.'));
      return [key, { names: new RegExp(`"(?:${names})"`), hasInner }];
    }),
  );
}

/** The rank of a status message: after every attribute and event. */
export const STATUS_MESSAGE_RANK = ERROR_MESSAGES.length;

function buildRules(): Map<string, readonly AttributeRule[]> {
  const rules = new Map<string, AttributeRule[]>();
  const add = (key: string, rule: AttributeRule) => {
    if (key.endsWith('.*')) FAMILIES.push({ prefix: key.slice(0, -1), rule });
    else rules.set(key, [...(rules.get(key) ?? []), rule]);
  };
  const addAll = (
    role: 'input' | 'output' | 'model' | 'session' | 'user' | 'message' | 'type' | 'stacktrace',
    keys: readonly string[],
  ) => {
    for (const [rank, key] of keys.entries()) {
      if (role === 'input' || role === 'output') {
        add(key, { role, rank, family: key.endsWith('.*') });
      } else {
        add(key, { role, rank });
      }
    }
  };
  addAll('input', INPUTS);
  addAll('output', OUTPUTS);
  addAll('model', [...MODELS, ...AGENT_MODELS]);
  addAll('session', SESSIONS);
  addAll('user', USERS);
  addAll('message', ERROR_MESSAGES);
  addAll('type', ERROR_TYPES);
  addAll('stacktrace', ERROR_STACKTRACES);
  for (const [kind, { attributes }] of Object.entries(TOKEN_KINDS)) {
    for (const [rank, key] of attributes.entries()) {
      add(key, { role: 'tokens', rank, kind: kind as TokenKind });
    }
  }
  for (const [rank, key] of USAGE_OBJECTS.entries()) add(key, { role: 'usage', rank });
  for (const [key, within] of Object.entries(USAGE_DETAILS)) {
    add(key, { role: 'usage', rank: USAGE_OBJECTS.length, within });
  }
  for (const [rank, kind] of KINDS.entries()) add(kind.key, { role: 'kind', rank, kindOf: kind });
  for (const [key, rule] of detailRules()) add(key, rule);
  add(FAILURE.key, { role: 'level' });
  add(FAILURE.message, { role: 'level_message' });
  for (const { key, value } of USAGE_RECORDS) add(key, { role: 'usage_record', value });
  add(QUALIFIED_MODEL, { role: 'qualified_model' });
  add(REQUEST_PARAMETERS, { role: 'parameters' });
  for (const [key, call] of Object.entries(CALLS_IN_OUTPUTS)) {
    add(key, { role: 'call_output', ...call });
  }
  for (const key of MEMBER_KEYS) add(key, { role: 'members' });
  add('context_metadata', { role: 'context_metadata' });
  add('tracectl.observation', { role: 'embedded' });
  add(ORIGINAL_PARENT_KEY, { role: 'original_parent' });
  add(IGNORED_KEY, { role: 'ignored' });
  for (const variable of TRACING_VARIABLES) {
    add(`langsmith.metadata.${variable}`, { role: 'tracing', variable });
  }
  for (const { key, layer } of CUSTOM_FIELDS) add(key, { role: 'custom_fields', layer });
  for (const { key, layer, within } of CUSTOM_FIELDS_WITHIN) {
    add(key, { role: 'custom_fields', layer, within });
  }
  return rules;
}

function rulesOfFamily(text: string): readonly AttributeRule[] {
  for (const { prefix, layer } of CUSTOM_FIELD_PREFIXES) {
    if (text.startsWith(prefix)) {
      return [{ role: 'custom_fields', layer, name: text.slice(prefix.length) }];
    }
  }
  if (text.startsWith(DETAILED_USAGE)) return detailedUsage(text.slice(DETAILED_USAGE.length));
  for (const { prefix, rule } of FAMILIES) {
    if (text.startsWith(prefix) && isIndexed(text.slice(prefix.length))) return [rule];
  }
  return NO_RULES;
}

/** The rule for a count of pydantic-ai. The attributes in the lists precede it. */
function detailedUsage(name: string): readonly AttributeRule[] {
  const known = kindOfCount(name);
  return known === undefined
    ? NO_RULES
    : [{ role: 'tokens', rank: DETAILED_RANK + known.rank, kind: known.kind }];
}

const DETAILED_RANK = 100;

/** Families are numbered from 0 to 9999: `0.message.role`. */
function isIndexed(rest: string): boolean {
  return /^(?:0|[1-9]\d{0,3})(?:\.|$)/.test(rest);
}

/** The prefix of the numbered family that a key belongs to, such as `llm.input_messages.`. */
export function familyOf(text: string): string | undefined {
  return FAMILIES.find(({ prefix }) => text.startsWith(prefix))?.prefix;
}

/**
 * Whether the text of an attribute is JSON: any value, or objects, arrays and quoted texts only. `elements`: so is each text of a list, as any
 * value.
 */
export type JsonForm = 'values' | 'containers' | 'elements';

const JSON_KEYS = new Map<string, JsonForm>();
const JSON_PREFIXES: { readonly prefix: string; readonly form: JsonForm }[] = [];
for (const key of JSON_LISTS) JSON_KEYS.set(key, 'elements');
for (const { key, values } of JSON_TEXTS) {
  const form = values === true ? 'values' : 'containers';
  if (key.endsWith('.')) JSON_PREFIXES.push({ prefix: key, form });
  else JSON_KEYS.set(key, form);
}

export function jsonFormOf(text: string): JsonForm | undefined {
  return JSON_KEYS.get(text) ?? JSON_PREFIXES.find(({ prefix }) => text.startsWith(prefix))?.form;
}

/** The attribute that says whether the text of another one is JSON. */
export function mimeTypeKeyOf(text: string): string | undefined {
  return MIME_TYPES.find(({ of }) => of === text)?.key;
}
