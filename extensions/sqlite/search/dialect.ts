import { dirname, join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { finds } from '../../../src/sqlite/rows.ts';
import type { Dialect } from '../../../src/store/plan/dialect.ts';
import { PROBED_ROWS } from '../../../src/store/plan/plan.ts';
import { sqliteDialect, unpostedTraces } from '../traces/dialect.ts';
import { isUnposted } from '../traces/postings.ts';
import { matchOf } from './tokens.ts';

/** The name of the file of the index, without `.db`. */
export const SEARCH_FILE = 'search';

/** With the index of payload text, which the connection has attached as `search`. */
export const sqliteTextDialect: Dialect = {
  ...sqliteDialect,
  texts: {
    contain: (phrase) =>
      `EXISTS (SELECT 1 FROM search.texts w WHERE w.trace = t.n AND instr(w.words, ${phrase}) > 0)`,
    rowsOf: (branches, parameters) =>
      `SELECT w.trace FROM search.text_index i CROSS JOIN search.texts w ON w.id = i.rowid
         WHERE i.text_index MATCH ${parameters.value(matchOf(branches))}`,
    rowsWith: (token, parameters) =>
      `SELECT 1 FROM search.text_index WHERE text_index MATCH ${parameters.value(matchOf([[token]]))}`,
    changes: `SELECT trace FROM (SELECT trace FROM text_changes WHERE n > 0 ORDER BY n LIMIT ${PROBED_ROWS}) c`,
    isWhole: '(SELECT trace IS NULL FROM search.search WHERE id = 1)',
    smallest: 'min',
  },
};

const attached = new WeakSet<DatabaseSync>();

/**
 * Returns the dialect of a reading connection, which depends on whether the store searches payloads, and on whether traces wait to be
 * posted.
 */
export function dialectIn(db: DatabaseSync): () => Dialect {
  const isOn = finds(db, 'SELECT 1 FROM text_search WHERE id = 1');
  const hasUnposted = finds(db, `SELECT 1 FROM traces WHERE ${isUnposted('n')} LIMIT 1`);
  const withTexts = (): Dialect => {
    if (!isOn()) return sqliteDialect;
    if (!attached.has(db)) {
      const file = join(dirname(db.location() ?? ''), `${SEARCH_FILE}.db`);
      db.prepare('ATTACH ? AS search').run(file);
      attached.add(db);
    }
    return sqliteTextDialect;
  };
  return () => (hasUnposted() ? { ...withTexts(), unposted: unpostedTraces } : withTexts());
}
