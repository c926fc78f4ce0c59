import { hash } from 'node:crypto';
import type { FieldName } from '../../query/fields.ts';
import { FIELDS } from '../../query/fields.ts';
import { printQuery } from '../../query/print.ts';
import type { Query, QueryTerm } from '../../query/query.ts';
import type { Key } from '../rows/observation-row.ts';
import type { BatchItem } from './items.ts';

/** Trace ids and users that every trace of a query has; null for a field that the query does not name. */
export type NamedValues = {
  readonly ids: readonly string[] | null;
  readonly users: readonly string[] | null;
};

/** The values that a query names; undefined if it also asks for something else. */
export function namedValues({ terms }: Query): NamedValues | undefined {
  const ids = valuesOf(terms, 'id');
  const users = valuesOf(terms, 'user');
  const named = [ids, users].filter((values) => values !== null).length;
  return named > 0 && named === terms.length ? { ids, users } : undefined;
}

/** The values of the only term on a field, if it is an equality. */
function valuesOf(terms: readonly QueryTerm[], field: FieldName): readonly string[] | null {
  const found = terms.filter(
    (term) => term.type === 'values' && term.field === field && !term.negated,
  );
  const [only] = found;
  if (only?.type !== 'values' || found.length > 1) return null;
  return only.values.some(({ isPrefix }) => isPrefix) ? null : only.values.map(({ text }) => text);
}

/** The query as text, with the hash of each text that a client chose in place of it. */
export function hashedQuery({ terms }: Query): string {
  return printQuery({ terms: terms.map(hashedTerm) });
}

function hashedTerm(term: QueryTerm): QueryTerm {
  if (term.type === 'text') return { ...term, text: sha256(term.text) };
  if (term.type !== 'values' || FIELDS[term.field].type === 'choice') return term;
  return { ...term, values: term.values.map((value) => ({ ...value, text: sha256(value.text) })) };
}

export function sha256(text: string): string {
  return hash('sha256', text, 'hex');
}

/** The hash of a trace id, of which a long one is stored as its hash only. */
export function hashOfKey(key: Key): string {
  return typeof key === 'string' ? sha256(key) : Buffer.from(key).toString('hex');
}

/** The traces that have an item with the values. For traces that the store has no rows of: it looks at these items alone. */
export function tracesNamed(
  items: readonly Pick<BatchItem, 'traceId' | 'userId'>[],
  { ids, users }: NamedValues,
): string[] {
  const found = new Set<string>();
  for (const { traceId, userId } of items) {
    if (traceId === null || (ids !== null && !ids.includes(traceId))) continue;
    if (users !== null && (userId === null || !users.includes(userId))) continue;
    found.add(traceId);
  }
  return [...found];
}
