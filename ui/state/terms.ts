import type { FieldName } from '../../src/query/fields.ts';
import { FIELDS, isFieldName } from '../../src/query/fields.ts';
import { parseQuery } from '../../src/query/parse.ts';
import { printQuery } from '../../src/query/print.ts';
import type { Query, QueryTerm } from '../../src/query/query.ts';
import { QueryError } from '../../src/query/query.ts';
import { daemonNow } from '../api/clock.ts';

/** A field as a query writes it: `model`, `custom.team`. */
type Field = { readonly field: FieldName; readonly key: string | null };

/** The field of a name such as `custom.team`; undefined if the language does not have it. */
export function fieldOf(name: string): Field | undefined {
  const dot = name.indexOf('.');
  const field = dot === -1 ? name : name.slice(0, dot);
  if (!isFieldName(field) || (FIELDS[field].isKeyed === true) !== (dot !== -1)) return undefined;
  return { field, key: dot === -1 ? null : name.slice(dot + 1) };
}

/** The values that a query asks for by equality in its terms on a field. */
export function valuesIn(text: string, name: string): ReadonlySet<string> {
  const found = termOn(parsed(text), name);
  const values = found?.values.filter(({ isPrefix }) => !isPrefix) ?? [];
  return new Set(values.map(({ text: value }) => value));
}

/** Whether a query has a term on a field, negated or not. */
export function hasTermOn(text: string, name: FieldName): boolean {
  return parsed(text)?.terms.some((each) => 'field' in each && each.field === name) === true;
}

/** Adds a value to the term on a field, or removes it. A query with a mistake stays as it is. */
export function toggleValue(text: string, name: string, value: string): string {
  const query = parsed(text);
  const field = fieldOf(name);
  if (query === undefined || field === undefined) return text;
  const before = termOn(query, name);
  if (before === undefined) return withTerm(text, printTerm(name, value));
  const others = before.values.filter((each) => each.isPrefix || each.text !== value);
  const isRemoved = others.length < before.values.length;
  const values = isRemoved ? others : [...before.values, { text: value, isPrefix: false }];
  const terms = query.terms.flatMap((each): readonly QueryTerm[] => {
    if (each !== before) return [each];
    return values.length === 0 ? [] : [{ ...before, values }];
  });
  return printQuery({ terms });
}

/** The query with one more term. */
export function withTerm(text: string, term: string): string {
  return [text.trim(), term].filter((each) => each !== '').join(' ');
}

/** The terms of a query on scores, as they are printed. */
export function scoreTerms(text: string): readonly string[] {
  const terms = parsed(text)?.terms ?? [];
  return terms
    .filter((each) => 'field' in each && each.field === 'score')
    .map((each) => printQuery({ terms: [each] }));
}

/** The query without the terms that are printed like that. */
export function withoutTerm(text: string, printed: string): string {
  const terms = parsed(text)?.terms ?? [];
  return printQuery({ terms: terms.filter((each) => printQuery({ terms: [each] }) !== printed) });
}

/** `field:value`, with quotes if the value needs them. */
export function printTerm(name: string, value: string): string {
  const field = fieldOf(name);
  if (field === undefined) return '';
  const values = [{ text: value, isPrefix: false }];
  return printQuery({ terms: [{ type: 'values', ...field, values, negated: false, position: 0 }] });
}

/** How a value of a score is compared: equal, at least, at most. */
export type Comparison = '=' | '>=' | '<=';

/** `score.NAME:value`; a text is quoted, so that it is not read as a number. Without a value, `has:score.NAME`. */
export function printScore(
  name: string,
  value?: number | boolean | string,
  comparison: Comparison = '=',
): string {
  const common = { field: 'score', key: name, negated: false, position: 0 } as const;
  if (value === undefined) return printQuery({ terms: [{ ...common, type: 'has' }] });
  if (typeof value !== 'number') {
    const values = [{ text: String(value), isPrefix: false }];
    return printQuery({ terms: [{ ...common, type: 'values', values }] });
  }
  const min = comparison === '<=' ? null : value;
  const max = comparison === '>=' ? null : value;
  const ranges = [{ min, max, isAboveMin: false, isBelowMax: false }];
  return printQuery({ terms: [{ ...common, type: 'ranges', ranges }] });
}

/** The mistake of a query; undefined if it has none. */
export function mistakeOf(text: string): QueryError | undefined {
  try {
    parse(text);
    return undefined;
  } catch (error) {
    return error instanceof QueryError ? error : undefined;
  }
}

function parsed(text: string): Query | undefined {
  return mistakeOf(text) === undefined ? parse(text) : undefined;
}

function parse(text: string): Query {
  return parseQuery(text, { ms: daemonNow(), ns: 0 });
}

function termOn(query: Query | undefined, name: string) {
  const wanted = fieldOf(name);
  for (const term of query?.terms ?? []) {
    if (term.type !== 'values' || term.negated) continue;
    if (term.field === wanted?.field && term.key === wanted.key) return term;
  }
  return undefined;
}
