import type { Dialect } from '../../../src/store/plan/dialect.ts';

/** The queries of listings in SQLite. */
export const sqliteDialect: Dialect = {
  placeholder: (place) => `?${place}`,
  traces: (index) => `traces t INDEXED BY ${index}`,
  tracesOfKeys: (where) => `t.n IN (SELECT k.n FROM traces k WHERE ${where})`,
  // The left side of a CROSS JOIN is the outer loop.
  tracesOfPlaces: 'CROSS JOIN traces t ON t.n = p.trace',
  rowByRow: '',
  integer: (parameter) => parameter,
  real: (parameter) => parameter,
  stored: (text) => text,
  storedKey: (key) => key,
  storedKeyText: (stored) => stored,
  position: 'instr',
  like: (text, pattern) => `${text} LIKE ${pattern} ESCAPE '\\'`,
  messageLike(text, parameters) {
    const message = "iif(json_valid(o.error), o.error ->> '$.message', NULL)";
    return this.like(message, parameters.anywhere(text));
  },
};
