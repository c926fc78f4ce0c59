import { Refusal } from '../model/errors.ts';
import { namedValues } from '../store/erasing/named.ts';
import type { ErasureRequest } from '../store/erasures.ts';
import { queryIn } from './query.ts';

/** The request of a client. */
export type AskedErasure = {
  readonly q: string;
  readonly dry_run?: boolean | undefined;
  /** ISO 8601. */
  readonly block_until?: string | undefined;
};

/** Throws a `Refusal` (400): an empty query would erase the whole project, for which there is another request. */
export function erasureRequest(
  { q, dry_run = false, block_until }: AskedErasure,
  now: number,
): ErasureRequest {
  const query = queryIn(q, now);
  if (query.terms.length === 0) {
    throw new Refusal('invalid_query', 'The query must have a term.', { position: 0 });
  }
  if (block_until === undefined) return { query, isDryRun: dry_run };
  const blockUntil = Date.parse(block_until);
  if (blockUntil <= now) {
    throw new Refusal('invalid_request', 'block_until must be in the future.');
  }
  if (namedValues(query) === undefined) {
    const message = 'block_until needs a query that names only trace ids or only users.';
    throw new Refusal('invalid_request', message);
  }
  return { query, isDryRun: dry_run, ...(dry_run ? {} : { blockUntil }) };
}

/** The request to erase one trace. */
export function erasureOfTrace(id: string): ErasureRequest {
  const values = [{ text: id, isPrefix: false }];
  const about = { field: 'id', key: null, negated: false, position: 0 } as const;
  return { query: { terms: [{ type: 'values', ...about, values }] }, isDryRun: false };
}

/** The refusal of a request whose query has a mistake, for callers without HTTP. */
export function queryMistake(error: unknown): { code: string; message: string } | undefined {
  return error instanceof Refusal ? { code: error.code, message: error.message } : undefined;
}
