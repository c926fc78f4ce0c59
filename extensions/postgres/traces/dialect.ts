import { inJsonText } from '../../../src/store/plan/conditions.ts';
import type { Dialect } from '../../../src/store/plan/dialect.ts';
import { bytesOfKey, escapeText } from './text.ts';

/** The message in the JSON of an error, as JSON has it. */
const MESSAGE = `substring(o.error from '"message":"((?:[^"\\\\]|\\\\.)*)"') COLLATE "C"`;

/** The queries of listings in Postgres. */
export const postgresDialect: Dialect = {
  placeholder: (place) => `$${place}`,
  traces: () => 'traces t',
  // As an array, whose values choose the partitions.
  tracesOfKeys: (where) => `t.n = ANY (ARRAY(SELECT k.n FROM trace_keys k WHERE ${where}))`,
  tracesOfPlaces: 'CROSS JOIN LATERAL (SELECT * FROM traces WHERE n = p.trace OFFSET 0) t',
  // Postgres does not turn a subquery with OFFSET into a join.
  rowByRow: 'OFFSET 0',
  integer: (parameter) => `${parameter}::bigint`,
  real: (parameter) => `${parameter}::float8`,
  stored: escapeText,
  storedKey: bytesOfKey,
  storedKeyText: (stored) => Buffer.from(stored),
  position: 'strpos',
  // Collation "C" ignores the case of ASCII letters only.
  needle: (text, parameters) => parameters.anywhere(text),
  like: (text, pattern) => `${text} ILIKE ${pattern}`,
  jsonLike: (json, pattern) => `${json} ILIKE ${pattern}`,
  // Read by its text: casting to JSON fails for a message with NUL.
  messageLike(text, parameters) {
    return this.like(MESSAGE, parameters.anywhere(inJsonText(text)));
  },
};
