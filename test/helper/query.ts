import { parseQuery } from '../../src/query/parse.ts';
import type { Query } from '../../src/query/query.ts';

/** A query of the query language; relative times count from `now`. */
export function aQuery(text: string, now = 0): Query {
  return parseQuery(text, { ms: now, ns: 0 });
}

/** A query for one text, which may have any characters. */
export function textQuery(text: string): Query {
  return { terms: [{ type: 'text', text, negated: false, position: 0 }] };
}

/** A query for the equality of a field with one text, which may have any characters. */
export function nameQuery(text: string): Query {
  const about = { field: 'name', key: null, negated: false, position: 0 } as const;
  return { terms: [{ type: 'values', ...about, values: [{ text, isPrefix: false }] }] };
}
