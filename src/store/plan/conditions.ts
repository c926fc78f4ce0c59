import { OBSERVATION_KINDS, OBSERVATION_STATUSES } from '../../model/observation.ts';
import type { FieldName } from '../../query/fields.ts';
import type {
  FieldTerm,
  NumberRange,
  QueryTerm,
  RangesTerm,
  TextValue,
  TimeRange,
} from '../../query/query.ts';
import { keyOfId, numberOfSource } from '../rows/observation-row.ts';
import { phraseOf } from '../search/tokens.ts';
import type { Parameters } from './dialect.ts';
import { successorOf } from './successor.ts';

/**
 * The SQL of a term: a condition on a row `t` of `traces`, and on the rows `o` of its observations. A condition that is neither
 * true nor false, such as a comparison with a missing value, does not hold, so that its negation does.
 */
export function conditionOf(term: QueryTerm, parameters: Parameters, staleBefore: number): string {
  const condition = positive(term, parameters, staleBefore);
  return term.negated ? `(${condition}) IS NOT TRUE` : condition;
}

function positive(term: QueryTerm, parameters: Parameters, staleBefore: number): string {
  switch (term.type) {
    case 'text':
      return textCondition(term.text, parameters);
    case 'has':
      return presence(term, parameters);
    case 'ranges':
      return rangesCondition(term, parameters);
    case 'times':
      return anyOf(term.ranges.map((range) => timeCondition(range, parameters)));
    case 'values':
      return valuesCondition(term, term.values, parameters, staleBefore);
  }
}

export const FAILED = OBSERVATION_STATUSES.indexOf('error');
const TOOL = OBSERVATION_KINDS.indexOf('tool');

/** Fields whose column of `traces` is a text. */
const TEXT_COLUMNS: Partial<Record<FieldName, string>> = {
  name: 't.name',
  session: 't.session_id',
  user: 't.user_id',
  key: 't.key_id',
  environment: 't.environment',
  release: 't.release',
};

/** Fields whose column of `observations` is a text. */
const OBSERVATION_COLUMNS: Partial<Record<FieldName, string>> = {
  span: 'o.name',
  model: 'o.model',
};

/** Fields that are members of a JSON column of `observations`. */
const OBSERVATION_MEMBERS: Partial<Record<FieldName, readonly [column: string, member: string]>> = {
  provider: ['o.details', 'provider'],
  prompt: ['o.details', 'promptName'],
  error: ['o.error', 'type'],
};

/** Fields whose column of `traces` is a number; the factor leads from the unit of the language to the one of the column. */
const NUMBER_COLUMNS: Partial<Record<FieldName, readonly [column: string, factor: number]>> = {
  latency: ['t.latency', 1],
  ttft: ['t.ttft', 1],
  cost: ['t.cost', 1e9],
  tokens: ['t.tokens', 1],
  input_tokens: ['t.input_tokens', 1],
  output_tokens: ['t.output_tokens', 1],
  observations: ['t.observations', 1],
};

function valuesCondition(
  { field, key }: FieldTerm,
  values: readonly TextValue[],
  parameters: Parameters,
  staleBefore: number,
): string {
  const any = (of: (value: TextValue) => string): string => anyOf(values.map(of));
  const column = TEXT_COLUMNS[field];
  if (column !== undefined) return any((value) => textEquals(column, value, parameters));
  const cell = OBSERVATION_COLUMNS[field];
  if (cell !== undefined)
    return anyObservation(
      any((value) => textEquals(cell, value, parameters)),
      parameters,
    );
  const member = OBSERVATION_MEMBERS[field];
  if (member !== undefined) {
    return anyObservation(
      any((value) => memberEquals(...member, value, parameters)),
      parameters,
    );
  }
  switch (field) {
    case 'id':
      return any((value) => idEquals(value, parameters));
    case 'status':
      return any(({ text }) => `t.status = ${number(OBSERVATION_STATUSES, text, parameters)}`);
    case 'kind':
      return anyObservation(
        any(({ text }) => `o.kind = ${number(OBSERVATION_KINDS, text, parameters)}`),
        parameters,
      );
    case 'source':
      return any(
        ({ text }) => `coalesce(t.source, 0) = ${parameters.integer(numberOfSource(text))}`,
      );
    case 'state':
      return any(({ text }) => stateCondition(text, parameters, staleBefore));
    case 'tag':
      return any((value) => tagEquals(value, parameters));
    case 'custom':
      return any((value) => memberEquals('t.facts', key ?? '', value, parameters));
    case 'tool':
      return anyObservation(
        any((value) => toolEquals(value, parameters)),
        parameters,
      );
    case 'score':
      return scoreExists(
        key,
        any((value) => scoreEquals(value, parameters)),
        parameters,
      );
    default:
      return 'FALSE';
  }
}

/** The presence of the fields that have neither a column nor a member of their own. */
const PRESENCE: Partial<Record<FieldName, string>> = {
  id: 'TRUE',
  status: 't.status IS NOT NULL',
  state: 'TRUE',
  start: 't.start_ms IS NOT NULL',
  source: 'TRUE',
  error: 't.errors > 0',
};

/** `has:field`. */
function presence({ field, key }: FieldTerm, parameters: Parameters): string {
  const column = TEXT_COLUMNS[field] ?? NUMBER_COLUMNS[field]?.[0];
  if (column !== undefined) return `${column} IS NOT NULL`;
  const known = PRESENCE[field];
  if (known !== undefined) return known;
  const cell = field === 'kind' ? 'o.kind' : OBSERVATION_COLUMNS[field];
  if (cell !== undefined) return anyObservation(`${cell} IS NOT NULL`, parameters);
  const member = OBSERVATION_MEMBERS[field];
  if (member !== undefined) return anyObservation(hasMember(...member, parameters), parameters);
  if (field === 'tag') return contains('t.facts', TAGS, parameters);
  if (field === 'tool') {
    const isNamedTool = `(o.kind = ${TOOL} AND o.name IS NOT NULL)`;
    return anyObservation(
      `(${hasMember('o.details', 'tool', parameters)} OR ${isNamedTool})`,
      parameters,
    );
  }
  if (field === 'score') return scoreExists(key, 'TRUE', parameters);
  if (field !== 'custom') return 'FALSE';
  return key === null
    ? anyOf(['{', ','].map((before) => contains('t.facts', `${before}"custom":{`, parameters)))
    : hasMember('t.facts', key, parameters);
}

function rangesCondition({ field, key, ranges }: RangesTerm, parameters: Parameters): string {
  if (field === 'score') {
    const isWithin = ranges.map((range) => rangeCondition('s.number', 1, range, parameters));
    return scoreExists(key, anyOf(isWithin), parameters);
  }
  const [column, factor] = NUMBER_COLUMNS[field] ?? [];
  if (column === undefined || factor === undefined) return 'FALSE';
  return anyOf(ranges.map((range) => rangeCondition(column, factor, range, parameters)));
}

function rangeCondition(
  column: string,
  factor: number,
  { min, max, isAboveMin, isBelowMax }: NumberRange,
  parameters: Parameters,
): string {
  const bounds: string[] = [];
  const bound = (value: number): string => parameters.real(scaled(value, factor));
  if (min !== null) bounds.push(`${column} ${isAboveMin ? '>' : '>='} ${bound(min)}`);
  if (max !== null) bounds.push(`${column} ${isBelowMax ? '<' : '<='} ${bound(max)}`);
  return `(${bounds.join(' AND ')})`;
}

/** Without the error of the product, so that equality with an amount in USD holds. */
function scaled(value: number, factor: number): number {
  const product = value * factor;
  const whole = Math.round(product);
  return Math.abs(product - whole) <= 4 * Number.EPSILON * Math.abs(whole) ? whole : product;
}

/** The time that orders listings: the start, or the arrival of a trace without one. */
export function timeCondition(
  { from, to }: TimeRange,
  parameters: Parameters,
  table: 't' | 'p' = 't',
): string {
  const bounds: string[] = [];
  const at = `(${table}.at_ms, ${table}.at_ns)`;
  if (from !== null) bounds.push(`${at} >= ${parameters.integers(from.ms, from.ns)}`);
  if (to !== null) bounds.push(`${at} < ${parameters.integers(to.ms, to.ns)}`);
  return bounds.length === 0 ? 'TRUE' : `(${bounds.join(' AND ')})`;
}

/** By the same rules as `traceOf`. */
function stateCondition(state: string, parameters: Parameters, staleBefore: number): string {
  const isFailed = `t.status = ${FAILED}`;
  if (state === 'error') return isFailed;
  const hasEnded = '(t.is_ended = 1 OR (t.is_ended IS NULL AND t.end_ms IS NOT NULL))';
  if (state === 'finished') return `((${isFailed}) IS NOT TRUE AND ${hasEnded})`;
  const isStale = `t.newest_ms < ${parameters.integer(staleBefore)}`;
  const isOpen = `(${isFailed}) IS NOT TRUE AND (${hasEnded}) IS NOT TRUE`;
  return state === 'interrupted'
    ? `(${isOpen} AND ${isStale})`
    : `(${isOpen} AND (${isStale}) IS NOT TRUE)`;
}

/**
 * Names of traces and spans, models, messages of errors, and custom fields contain the text, or an id begins with it. With an index of
 * payload text, the words of a payload may contain those of the text instead.
 */
function textCondition(text: string, parameters: Parameters): string {
  const { dialect } = parameters;
  const needle = dialect.needle(text, parameters);
  // Custom fields are JSON, which escapes some characters.
  const inJson = parameters.anywhere(inJsonText(text));
  const ofObservation = [
    dialect.like('o.name', needle),
    dialect.like('o.model', needle),
    dialect.jsonLike('o.custom', inJson),
    dialect.messageLike(text, parameters),
    keyBegins('o', text, parameters),
    // The id of a span without the id of its trace.
    keyBegins('o', `:${text}`, parameters),
  ];
  return anyOf([
    keyBegins('t', text, parameters),
    dialect.like('t.name', needle),
    anyObservation(anyOf(ofObservation), parameters),
    ...wholeSpanId(text, parameters),
    ...inPayloads(text, parameters),
  ]);
}

function inPayloads(text: string, parameters: Parameters): string[] {
  const { texts } = parameters.dialect;
  const phrase = phraseOf(text);
  return texts === undefined || phrase === undefined
    ? []
    : [texts.contain(parameters.value(phrase))];
}

/** The id of a span as answers have it: behind the id of its trace. */
function wholeSpanId(text: string, parameters: Parameters): string[] {
  const colon = text.indexOf(':');
  if (colon < 1) return [];
  const inTrace = idEquals({ text: text.slice(0, colon), isPrefix: false }, parameters);
  const span = keyBegins('o', text.slice(colon), parameters);
  return [`(${inTrace} AND ${anyObservation(span, parameters)})`];
}

function number(list: readonly string[], text: string, parameters: Parameters): string {
  return parameters.integer(list.indexOf(text));
}

function textEquals(column: string, { text, isPrefix }: TextValue, parameters: Parameters): string {
  if (!isPrefix) return `${column} = ${parameters.text(text)}`;
  return prefix(column, parameters.dialect.stored(text), (stored) => parameters.value(stored));
}

/** Texts are in the order of their bytes, so those that begin with a text are a range. */
function prefix(column: string, stored: string, parameter: (stored: string) => string): string {
  const next = successorOf(stored);
  const from = `${column} >= ${parameter(stored)}`;
  return next === undefined ? from : `(${from} AND ${column} < ${parameter(next)})`;
}

function idEquals({ text, isPrefix }: TextValue, parameters: Parameters): string {
  if (isPrefix) return keyBegins('t', text, parameters);
  return `t.key = ${parameters.value(parameters.dialect.storedKey(keyOfId(text)))}`;
}

/** The key begins with a text; a long id is not in the key. */
function keyBegins(table: 't' | 'o', text: string, parameters: Parameters): string {
  const { dialect } = parameters;
  const stored = dialect.stored(text);
  const inKey = prefix(`${table}.key`, stored, (part) =>
    parameters.value(dialect.storedKeyText(part)),
  );
  return anyOf([inKey, prefix(`${table}.long_id`, stored, (part) => parameters.value(part))]);
}

function toolEquals(value: TextValue, parameters: Parameters): string {
  const isNamed = `o.kind = ${TOOL} AND ${textEquals('o.name', value, parameters)}`;
  const hasNone = `(${hasMember('o.details', 'tool', parameters)}) IS NOT TRUE`;
  return anyOf([
    memberEquals('o.details', 'tool', value, parameters),
    `(${isNamed} AND ${hasNone})`,
  ]);
}

/**
 * A member of a JSON text is found by its text: a quote behind a brace or a comma begins a key, and no text inside a string looks so, since
 * its quotes are escaped. Only one object in each column has texts under arbitrary keys.
 */
function memberEquals(
  column: string,
  member: string,
  { text, isPrefix }: TextValue,
  parameters: Parameters,
): string {
  const value = `${JSON.stringify(member)}:"${inJsonText(text)}${isPrefix ? '' : '"'}`;
  return anyOf(['{', ','].map((before) => contains(column, before + value, parameters)));
}

function hasMember(column: string, member: string, parameters: Parameters): string {
  return memberEquals(column, member, { text: '', isPrefix: true }, parameters);
}

const TAGS = '"tags":[';
const BEHIND_TAGS = '],"custom":{';

/** An element of the array `tags` in `facts`, which only `custom` follows. */
function tagEquals({ text, isPrefix }: TextValue, parameters: Parameters): string {
  const { position } = parameters.dialect;
  const start = `${position}(t.facts, '${TAGS}')`;
  const end = `${position}(t.facts || '${BEHIND_TAGS}', '${BEHIND_TAGS}')`;
  const tags = `substr(t.facts, ${start}, ${end} - ${start} + 1)`;
  const ends = isPrefix ? [''] : ['",', '"]'];
  const elements = ['[', ','].flatMap((before) =>
    ends.map((behind) => `${before}"${inJsonText(text)}${behind}`),
  );
  return `(${start} > 0 AND ${anyOf(elements.map((one) => contains(tags, one, parameters)))})`;
}

function contains(column: string, text: string, parameters: Parameters): string {
  return `${parameters.dialect.position}(${column}, ${parameters.text(text)}) > 0`;
}

/** The text as JSON has it, without the quotes. */
export function inJsonText(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}

/** A score of the trace or of its observations, of any name without a `name`. */
function scoreExists(name: string | null, condition: string, parameters: Parameters): string {
  const isNamed = name === null ? '' : `AND s.name = ${parameters.text(name)}`;
  return `EXISTS (SELECT 1 FROM scores s WHERE s.project = t.project AND s.trace = t.key ${isNamed} AND ${condition})`;
}

/** The column `value` has the value as JSON. A boolean is compared by its word. */
function scoreEquals({ text, isPrefix }: TextValue, parameters: Parameters): string {
  if (isPrefix)
    return textEquals('s.value', { text: `"${inJsonText(text)}`, isPrefix }, parameters);
  const equals = (value: string): string => `s.value = ${parameters.text(value)}`;
  const isWord = text === 'true' || text === 'false';
  return anyOf([equals(JSON.stringify(text)), ...(isWord ? [equals(text)] : [])]);
}

function anyObservation(condition: string, { dialect }: Parameters): string {
  return `EXISTS (SELECT 1 FROM observations o WHERE o.trace = t.n AND ${condition} ${dialect.rowByRow})`;
}

function anyOf(conditions: readonly string[]): string {
  return conditions.length === 1 ? (conditions[0] ?? 'FALSE') : `(${conditions.join(' OR ')})`;
}
