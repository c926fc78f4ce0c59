import { createHash } from 'node:crypto';
import { printQuery } from '../../query/print.ts';
import type { Query } from '../../query/query.ts';

const HASH_CHARACTERS = 16;

/** A query for the audit log: times as they are, and other values by their hash, so that the log keeps no data of a user. */
export function aboutOf({ terms }: Query): string {
  const about = terms.map((term) => {
    const text = printQuery({ terms: [term] });
    if (term.type === 'times' || term.type === 'has') return text;
    const hash = createHash('sha256').update(text).digest('hex').slice(0, HASH_CHARACTERS);
    return `${term.type === 'text' ? 'text' : term.field}:sha256-${hash}`;
  });
  return about.length === 0 ? 'all traces' : about.join(' ');
}
