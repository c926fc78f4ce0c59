import { FIELDS } from './fields.ts';
import type { FieldTerm, NumberRange, Query, QueryTerm, TextValue } from './query.ts';

/** The query as text: parsing it gives the same terms. */
export function printQuery({ terms }: Query): string {
  return terms.map((term) => (term.negated ? '-' : '') + printTerm(term)).join(' ');
}

function printTerm(term: QueryTerm): string {
  switch (term.type) {
    case 'text':
      return isPlainWord(term.text) ? term.text : quote(term.text);
    case 'has':
      return `has:${printField(term)}`;
    case 'values':
      return `${printField(term)}:${term.values.map((value) => printValue(term, value)).join(',')}`;
    case 'times':
      return `${printField(term)}:${term.ranges.map(({ text }) => text).join(',')}`;
    case 'ranges':
      return `${printField(term)}:${term.ranges.map((range) => printRange(term, range)).join(',')}`;
  }
}

function printField({ field, key }: FieldTerm): string {
  if (key === null) return field;
  return /^[\w.-]+$/.test(key) ? `${field}.${key}` : `${field}.${quote(key)}`;
}

function printValue({ field }: FieldTerm, { text, isPrefix }: TextValue): string {
  // A value that begins with two slashes would make the term look like a URL.
  const mustQuote = FIELDS[field].type === 'score' || !/^(?!\/\/)[^\s,"*<>]+$/.test(text);
  return (mustQuote ? quote(text) : text) + (isPrefix ? '*' : '');
}

function printRange(
  { field }: FieldTerm,
  { min, max, isAboveMin, isBelowMax }: NumberRange,
): string {
  const unit = FIELDS[field].type === 'duration' ? 'ms' : '';
  if (max === null) return `${isAboveMin ? '>' : '>='}${min}${unit}`;
  if (min === null) return `${isBelowMax ? '<' : '<='}${max}${unit}`;
  return min === max ? `${min}${unit}` : `${min}${unit}..${max}${unit}`;
}

/** A word that reads as text without quotes. */
function isPlainWord(text: string): boolean {
  return /^[^\s"\-:*][^\s":*]*$/.test(text) && !['AND', 'OR', 'NOT'].includes(text);
}

function quote(text: string): string {
  return `"${text.replaceAll(/["\\]/g, '\\$&')}"`;
}
