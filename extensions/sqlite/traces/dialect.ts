import type { Dialect, Lead } from '../../../src/store/plan/dialect.ts';

const INDEXES: Readonly<Record<Lead, string>> = {
  time: 'traces_by_time',
  session: 'traces_by_session',
  user: 'traces_by_user',
  failed: 'failed_traces',
  with_session: 'traces_with_session',
  with_user: 'traces_with_user',
};

/** The queries of listings in SQLite. */
export const sqliteDialect: Dialect = {
  placeholder: (place) => `?${place}`,
  traces: (lead) => `traces t INDEXED BY ${INDEXES[lead]}`,
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
