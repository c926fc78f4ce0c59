import { inJsonText } from '../../../src/store/plan/conditions.ts';
import type { Dialect, UnpostedDialect } from '../../../src/store/plan/dialect.ts';
import { blobOfTerms, isUnposted } from './postings.ts';

/** As lower() of SQLite: ASCII letters only. */
function lowercase(text: string): string {
  return text.replaceAll(/[A-Z]/g, (letter) => letter.toLowerCase());
}

/** The queries of listings in SQLite. */
export const sqliteDialect: Dialect = {
  placeholder: (place) => `?${place}`,
  traces: (index) => `traces t INDEXED BY ${index}`,
  tracesOfKeys: (where) => `t.n IN (SELECT k.n FROM traces k WHERE ${where})`,
  inGroupIndexes: 't.is_grouped = 1',
  // The left side of a CROSS JOIN is the outer loop.
  tracesOfPlaces: 'CROSS JOIN traces t ON t.n = p.trace',
  rowByRow: '',
  integer: (parameter) => parameter,
  real: (parameter) => parameter,
  stored: (text) => text,
  storedKey: (key) => key,
  storedKeyText: (stored) => stored,
  position: 'instr',
  needle: (text, parameters) => parameters.value(lowercase(text)),
  // Not LIKE, for which a text ends at NUL.
  like: (text, needle) => `instr(lower(${text}), ${needle}) > 0`,
  jsonLike: (json, pattern) => `${json} LIKE ${pattern} ESCAPE '\\'`,
  messageLike(text, parameters) {
    // Most errors do not contain the text, and are not parsed.
    const inError = this.jsonLike('o.error', parameters.anywhere(inJsonText(text)));
    const message = "iif(json_valid(o.error), o.error ->> '$.message', NULL)";
    return `(${inError} AND ${this.like(message, this.needle(text, parameters))})`;
  },
};

/** The traces behind the last posted one. */
export const unpostedTraces: UnpostedDialect = {
  // By their numbers: every index of the table would read the traces of the project.
  traces: 'traces t NOT INDEXED',
  is: isUnposted,
  notInGroupIndexes: 't.is_grouped = 0',
  hasTerm: (term, parameters) => `instr(t.terms, ${parameters.value(blobOfTerms([term]))}) > 0`,
};
