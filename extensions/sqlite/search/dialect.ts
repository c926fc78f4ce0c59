import { dirname, join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { AttachedFileError } from '../../../src/sqlite/operation.ts';
import { errcodeOf, isDamage } from '../../../src/sqlite/result-code.ts';
import { finds } from '../../../src/sqlite/rows.ts';
import type { Dialect } from '../../../src/store/plan/dialect.ts';
import { PROBED_ROWS } from '../../../src/store/plan/plan.ts';
import type { Look } from '../../../src/store/plan/step.ts';
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

/** Makes and executes the statements of a query by the dialect of the connection. */
export type QueryRunner = <Result>(
  query: Look['query'],
  run: (dialect: Dialect) => Result,
) => Result;

/**
 * Returns the runner of a reading connection. The dialect depends on whether traces wait to be posted, and for a query with a text on
 * whether the store searches payloads: no other query reads the index.
 */
export function queryRunner(db: DatabaseSync): QueryRunner {
  const isOn = finds(db, 'SELECT 1 FROM text_search WHERE id = 1');
  const hasUnposted = finds(db, `SELECT 1 FROM traces WHERE ${isUnposted('n')} LIMIT 1`);
  const whole = (dialect: Dialect): Dialect =>
    hasUnposted() ? { ...dialect, unposted: unpostedTraces } : dialect;
  return (query, run) => {
    const hasText = query.terms.some(({ type }) => type === 'text') && isOn();
    if (!hasText) return run(whole(sqliteDialect));
    try {
      attach(db);
      return run(whole(sqliteTextDialect));
    } catch (error) {
      const errcode = errcodeOf(error);
      if (errcode === undefined) throw error;
      // SQLite does not say which file failed. If the store did, this fails too.
      run(whole(sqliteDialect));
      throw indexFailure(db, error, errcode);
    }
  };
}

function attach(db: DatabaseSync): void {
  if (attached.has(db)) return;
  db.prepare('ATTACH ? AS search').run(indexFile(db));
  attached.add(db);
}

function indexFile(db: DatabaseSync): string {
  return join(dirname(db.location() ?? ''), `${SEARCH_FILE}.db`);
}

function indexFailure(db: DatabaseSync, error: unknown, errcode: number): AttachedFileError {
  const file = indexFile(db);
  const reason = error instanceof Error ? error.message : String(error);
  const message = `the index of payload text ${file} cannot be read: ${reason}`;
  return new AttachedFileError(message, { file, isDamaged: isDamage(errcode), cause: error });
}
