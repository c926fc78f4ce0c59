import { nearest } from '../component/did-you-mean.ts';
import type { Instant } from '../model/observation.ts';
import { wellFormed } from '../model/well-formed.ts';
import type { QueryField } from './fields.ts';
import { FIELD_NAMES, FIELDS, isFieldName } from './fields.ts';
import type { FieldTerm, Query, QueryTerm, TextValue } from './query.ts';
import { QueryMistake } from './query.ts';
import type { RawValue } from './values.ts';
import { isNumeric, numberRange, timeRange } from './values.ts';

/** The most characters of a query, and the most terms. */
export const MAX_QUERY_LENGTH = 2048;
export const MAX_QUERY_TERMS = 32;

/**
 * Parses one line of the query language (docs/query-language.md). `now` is the instant that relative times count from.
 * Throws a `QueryError` with the position of the first mistake.
 */
export function parseQuery(text: string, now: Instant): Query {
  try {
    return { terms: termsOf(text, now) };
  } catch (error) {
    throw error instanceof QueryMistake ? error.in(text) : error;
  }
}

function termsOf(text: string, now: Instant): QueryTerm[] {
  if (text.length > MAX_QUERY_LENGTH) refuseLongText(text);
  const terms: QueryTerm[] = [];
  const reader = new Reader(text);
  for (reader.skipSpaces(); !reader.isAtEnd(); reader.skipSpaces()) {
    if (terms.length === MAX_QUERY_TERMS) {
      throw new QueryMistake(`The query has more than ${MAX_QUERY_TERMS} terms`, reader.at);
    }
    terms.push(term(reader, now));
  }
  return terms;
}

function refuseLongText(text: string): void {
  const kept = [...text].slice(0, MAX_QUERY_LENGTH).join('');
  if (kept.length === text.length) return;
  throw new QueryMistake(`The query has more than ${MAX_QUERY_LENGTH} characters`, kept.length);
}

/** A text with the index of the next character. */
class Reader {
  readonly text: string;
  at = 0;

  constructor(text: string) {
    this.text = text;
  }

  isAtEnd(): boolean {
    return this.at >= this.text.length;
  }

  /** Whether a term ends here. */
  isAtSpace(): boolean {
    return this.isAtEnd() || /\s/.test(this.text[this.at] ?? '');
  }

  skipSpaces(): void {
    while (!this.isAtEnd() && this.isAtSpace()) this.at++;
  }

  takeIf(character: string): boolean {
    if (this.text[this.at] !== character) return false;
    this.at++;
    return true;
  }

  /** Takes the match of a sticky pattern; undefined if it does not match here. */
  take(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text)?.[0];
    this.at += found?.length ?? 0;
    return found;
  }
}

function term(reader: Reader, now: Instant): QueryTerm {
  const position = reader.at;
  const negated = reader.takeIf('-');
  if (reader.isAtSpace()) throw new QueryMistake('Expected a term after "-" {place}', position);
  if (reader.take(HAS) !== undefined) {
    return { type: 'has', ...presentField(reader), negated, position };
  }
  const name = fieldName(reader);
  if (name === undefined) return { type: 'text', text: searched(reader), negated, position };
  return fieldTerm(reader, { ...name, negated, position }, now);
}

type Name = Pick<FieldTerm, 'field' | 'key'>;

const HAS = /has:/y;
/** `name:`, `custom.key:` or `custom."a key":`. */
const FIELD = /[A-Za-z_][\w-]*(?:\.[^\s:",]*)?:(?!\/\/)/y;
const KEYED_QUOTED = /[a-z]+\.(?=")/y;

/** Takes the field and its colon; undefined before a word. */
function fieldName(reader: Reader): Name | undefined {
  const keyed = keyedName(reader);
  if (keyed !== undefined) {
    if (!reader.takeIf(':')) throw new QueryMistake('Expected ":" {place}', reader.at);
    return keyed;
  }
  const position = reader.at;
  const name = reader.take(FIELD)?.slice(0, -1);
  return name === undefined ? undefined : fieldOf(name, position);
}

/** Takes `custom."a key"`. */
function keyedName(reader: Reader): Name | undefined {
  const position = reader.at;
  const name = reader.take(KEYED_QUOTED)?.slice(0, -1);
  return name === undefined ? undefined : knownField(name, quoted(reader), position);
}

/** Takes the field behind `has:`, which may be `custom` without a key. */
function presentField(reader: Reader): Name {
  const position = reader.at;
  const name = keyedName(reader) ?? reader.take(/[^\s,]+/y);
  if (name === undefined)
    throw new QueryMistake('Expected a field behind "has:" {place}', position);
  if (!reader.isAtSpace()) throw new QueryMistake('Expected a space {place}', reader.at);
  if (typeof name !== 'string') return name;
  return isFieldName(name) ? { field: name, key: null } : fieldOf(name, position);
}

/** The field of `name` or `custom.key`. */
function fieldOf(name: string, position: number): Name {
  const dot = name.indexOf('.');
  return dot === -1
    ? knownField(name, null, position)
    : knownField(name.slice(0, dot), name.slice(dot + 1), position);
}

function knownField(name: string, key: string | null, position: number): Name {
  if (!isFieldName(name) || (key !== null && FIELDS[name].isKeyed !== true)) {
    throw unknownField(key === null ? name : `${name}.${key}`, position);
  }
  if (FIELDS[name].isKeyed === true && (key === null || key === '')) {
    throw new QueryMistake(`Expected a name behind "${name}." {place}`, position);
  }
  return { field: name, key: key === null ? null : wellFormed(key) };
}

function unknownField(name: string, position: number): QueryMistake {
  const meant = nearest(name, [...FIELD_NAMES, 'has']);
  const advice =
    meant === undefined
      ? '; quote the word to search for it as text'
      : `; did you mean "${meant}"?`;
  return new QueryMistake(`Unknown field ${JSON.stringify(name)} {place}${advice}`, position);
}

/** Operators of other query languages, which must not silently become words. */
const OPERATORS = ['AND', 'OR', 'NOT'];

/** Takes a text to search for. */
function searched(reader: Reader): string {
  const position = reader.at;
  const text = words(reader);
  // SQLite ends a text at NUL, so that the part before it would be searched for.
  if (text.includes('\0')) throw new QueryMistake('The text {place} has a NUL', position);
  return wellFormed(text);
}

/** Takes a word or a quoted phrase. A word matches anywhere in a text, so its trailing `*` is dropped.*/
function words(reader: Reader): string {
  const position = reader.at;
  if (reader.text[position] === '"') {
    const phrase = quoted(reader);
    if (phrase === '') throw new QueryMistake('The phrase {place} is empty', position);
    if (!reader.isAtSpace()) throw new QueryMistake('Expected a space {place}', reader.at);
    return phrase;
  }
  const word = reader.take(/\S+/y) ?? '';
  if (OPERATORS.includes(word)) {
    throw new QueryMistake(
      `${word} {place} is no operator: terms are joined by AND, field:a,b means any of them, and -term excludes; ` +
        'quote the word to search for it',
      position,
    );
  }
  // A word that looks like a field is a mistake: as a text behind "-" it would match nearly every trace. `10:30` and URLs look otherwise.
  if (/^[^\d:]*:(?!\/\/)/.test(word)) {
    throw new QueryMistake(
      'Expected a field before ":" in the word {place}; quote the word to search for it as text',
      position,
    );
  }
  return word.replace(/(?!^)\*+$/, '');
}

function fieldTerm(reader: Reader, term: FieldTerm, now: Instant): QueryTerm {
  const field = FIELDS[term.field];
  const values = rawValues(reader, nameOf(term));
  const prefix = values.find(({ isPrefix }) => isPrefix);
  if (prefix !== undefined && field.type !== 'text' && field.type !== 'score') {
    throw new QueryMistake('Expected a value without "*" {place}', prefix.position);
  }
  switch (field.type) {
    case 'text':
      return { type: 'values', ...term, values: values.map(textValue) };
    case 'choice':
      return { type: 'values', ...term, values: values.map((value) => choice(field, value)) };
    case 'time':
      return { type: 'times', ...term, ranges: values.map((value) => timeRange(value, now)) };
    case 'score':
      if (!values.every(isNumeric)) {
        return { type: 'values', ...term, values: values.map(textValue) };
      }
      break;
    default:
  }
  return { type: 'ranges', ...term, ranges: values.map((value) => numberRange(field, value)) };
}

function nameOf({ field, key }: Pick<FieldTerm, 'field' | 'key'>): string {
  return key === null ? field : `${field}.${key}`;
}

/** The values of a list: `a,b,"c d"`. */
function rawValues(reader: Reader, name: string): RawValue[] {
  const values: RawValue[] = [];
  do {
    const position = reader.at;
    const isQuoted = reader.text[position] === '"';
    const text = isQuoted ? quoted(reader) : (reader.take(/[^\s,]+/y) ?? '');
    if (text === '') {
      throw new QueryMistake(
        `Expected a value for "${name}" {place}; -has:${name} finds traces without one`,
        position,
      );
    }
    values.push({ text, isQuoted, isPrefix: isQuoted && reader.takeIf('*'), position });
    if (reader.text[reader.at] !== ',' && !reader.isAtSpace()) {
      throw new QueryMistake('Expected a space or a comma {place}', reader.at);
    }
  } while (reader.takeIf(','));
  return values;
}

function textValue({ text, isQuoted, isPrefix, position }: RawValue): TextValue {
  if (isQuoted) return { text: wellFormed(text), isPrefix };
  if (/^[<>]/.test(text)) {
    throw new QueryMistake('Expected a text {place}: it has no order; quote the value', position);
  }
  if (!text.endsWith('*')) return { text: wellFormed(text), isPrefix: false };
  if (text === '*') throw new QueryMistake('Expected a prefix before "*" {place}', position);
  return { text: wellFormed(text.slice(0, -1)), isPrefix: true };
}

function choice({ choices = [] }: QueryField, { text, position }: RawValue): TextValue {
  if (choices.includes(text)) return { text, isPrefix: false };
  throw new QueryMistake(
    `${JSON.stringify(text)} {place} is none of ${choices.join(', ')}`,
    position,
  );
}

/** A text in quotes, in which `\"` is the quote and `\\` is the backslash. */
function quoted(reader: Reader): string {
  const position = reader.at;
  const found = reader.take(/"(?:[^"\\]|\\[\s\S])*"/y);
  if (found === undefined) {
    throw new QueryMistake('The quote {place} is not closed', position);
  }
  return found.slice(1, -1).replaceAll(/\\(["\\])/g, '$1');
}
