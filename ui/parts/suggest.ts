import { FIELD_NAMES, FIELDS } from '../../src/query/fields.ts';
import { fieldOf, printTerm } from '../state/terms.ts';

/** The part of a query that a person types: the beginning of a field's name, or of a value. */
export type Typed = {
  /** Undefined while the name is typed. */
  readonly field: string | undefined;
  readonly prefix: string;
  /** Where the word begins and ends in the text. */
  readonly start: number;
  readonly end: number;
};

export type Suggestion = {
  /** Replaces the word. */
  readonly text: string;
  readonly label: string;
  readonly note: string;
};

/** The word at the caret; undefined inside of quotes or where nothing can be completed. */
export function typedAt(text: string, caret: number): Typed | undefined {
  const before = text.slice(0, caret);
  const word = /(?:^|\s)-?([^\s"]*)$/.exec(before)?.[1];
  if (word === undefined || (before.match(/"/g)?.length ?? 0) % 2 === 1) return undefined;
  const rest = /^[^\s"]*/.exec(text.slice(caret))?.[0] ?? '';
  const start = caret - word.length;
  const end = caret + rest.length;
  const colon = word.indexOf(':');
  if (colon === -1) return { field: undefined, prefix: word, start, end };
  return { field: word.slice(0, colon), prefix: word.slice(colon + 1), start, end };
}

/** Fields whose name begins with the word. */
export function fieldSuggestions({ prefix }: Typed): readonly Suggestion[] {
  return FIELD_NAMES.filter((name) => name.startsWith(prefix.toLowerCase())).map((name) => {
    const { isKeyed, meaning } = FIELDS[name];
    const text = isKeyed === true ? `${name}.` : `${name}:`;
    return { text, label: text, note: meaning };
  });
}

/** Fields whose values the daemon lists. */
const LISTED = new Set([
  ...['name', 'status', 'state', 'session', 'user', 'source', 'key', 'environment', 'release'],
  ...['tag', 'kind', 'model', 'tool', 'span', 'provider', 'prompt', 'error'],
]);

export function isListed(field: string): boolean {
  return LISTED.has(field) || (field.startsWith('custom.') && field.length > 'custom.'.length);
}

const EXAMPLES: Readonly<Record<string, readonly string[]>> = {
  duration: ['>1s', '>500ms', '<100ms', '1s..5s'],
  money: ['>0.01', '>1', '0.1..1'],
  count: ['>1000', '>10k', '<100'],
  time: ['>=now-24h', '>=now-1h'],
  score: ['>0.8', '<0.5'],
};

/** Values that need no request: choices, and examples of comparisons. */
export function valueSuggestions({ field = '', prefix }: Typed): readonly Suggestion[] {
  const known = fieldOf(field);
  if (known === undefined) return [];
  const { choices, type } = FIELDS[known.field];
  const values = choices ?? EXAMPLES[type] ?? [];
  return values
    .filter((value) => value.startsWith(prefix))
    .map((value) => ({ text: `${field}:${value}`, label: value, note: '' }));
}

/** Values that traces have. An answer may be older than the word. */
export function listedSuggestions(
  { field = '', prefix }: Typed,
  values: readonly { readonly value: string; readonly traces: number }[],
): readonly Suggestion[] {
  const matching = values.filter(({ value }) => value.startsWith(prefix));
  return matching.map(({ value, traces }) => {
    const note = traces === 1 ? '1 trace' : `${traces.toLocaleString('en-US')} traces`;
    return { text: printTerm(field, value), label: value, note };
  });
}

/** The text and the caret after a suggestion was taken. A name waits for its value, a value ends with a space. */
export function taken(
  text: string,
  { start, end }: Typed,
  suggestion: Suggestion,
): { readonly text: string; readonly caret: number } {
  const isWhole = !/[.:]$/.test(suggestion.text);
  const after = text.slice(end).replace(/^ /, '');
  const inserted = isWhole ? `${suggestion.text} ` : suggestion.text;
  return { text: text.slice(0, start) + inserted + after, caret: start + inserted.length };
}
