import type { Dialect } from '../../../src/store/plan/dialect.ts';
import { PROBED_ROWS } from '../../../src/store/plan/plan.ts';
import type { TokenBranch } from '../../../src/store/search/tokens.ts';
import { postgresDialect } from '../traces/dialect.ts';

function arrayOf(tokens: TokenBranch): string {
  return `{${tokens.join(',')}}`;
}

/** With the index of payload text. */
export const postgresTextDialect: Dialect = {
  ...postgresDialect,
  texts: {
    contain: (phrase) =>
      `EXISTS (SELECT 1 FROM payload_texts w WHERE w.trace = t.n AND strpos(w.words, ${phrase}::text) > 0 OFFSET 0)`,
    rowsOf(branches, parameters) {
      const any = branches.map(
        (branch) => `w.tokens @> ${parameters.value(arrayOf(branch))}::bigint[]`,
      );
      return `SELECT w.trace FROM payload_texts w WHERE ${any.join(' OR ')}`;
    },
    rowsWith: (token, parameters) =>
      `SELECT 1 FROM payload_texts w WHERE w.tokens @> ${parameters.value(arrayOf([token]))}::bigint[]`,
    changes: `SELECT trace FROM (SELECT trace FROM text_changes WHERE n > 0 ORDER BY n LIMIT ${PROBED_ROWS}) c`,
    isWhole: '(SELECT bytes > 0 AND trace IS NULL FROM text_search WHERE id)',
    smallest: 'least',
  },
};
