/** The file of operations of `search.db`, the index of payload text. It is made again from the store if it is lost. */
import type { DatabaseSync } from 'node:sqlite';
import type { FileMigration } from '../../../src/sqlite/migrate.ts';
import { cell, prepareWide, tuples } from '../../../src/sqlite/rows.ts';
import type { Key } from '../../../src/store/rows/observation-row.ts';
import type { SearchPlace, SearchStep } from '../../../src/store/search/indexer.ts';
import { NEWEST_PLACE } from '../../../src/store/search/indexer.ts';
import { textOfToken } from './tokens.ts';

/** Pages of the index that one step merges. */
const MERGED_PAGES = 64;

const tables: FileMigration = {
  name: '0001-search',
  apply(db) {
    db.exec(`
      CREATE TABLE search (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        -- The bytes of a field that are searched.
        bytes INTEGER NOT NULL,
        -- The place of the walk over the stored observations; NULL once it is over.
        trace INTEGER,
        key ANY,
        -- Observations that the walk has indexed, and that there were.
        indexed INTEGER NOT NULL,
        stored INTEGER NOT NULL
      ) STRICT;
      -- A row for each observation.
      CREATE TABLE texts (
        id INTEGER PRIMARY KEY,
        trace INTEGER NOT NULL,
        observation INTEGER NOT NULL,
        words TEXT NOT NULL,
        UNIQUE (trace, observation)
      ) STRICT;
      -- The tokens of each row. They are texts of ASCII letters and digits.
      CREATE VIRTUAL TABLE text_index USING fts5(
        tokens, content = '', contentless_delete = 1, detail = none, tokenize = 'ascii');
    `);
  },
};

export const migrations = [tables];
export const growing = ['index.save'] as const satisfies readonly (keyof ReturnType<
  typeof writeOperations
>)[];

/** The walk over the stored observations. */
type SearchWalk = {
  readonly bytes: number;
  /** Null once it is over. */
  readonly place: SearchPlace | null;
  readonly indexed: number;
  readonly stored: number;
};

export function writeOperations(db: DatabaseSync) {
  db.exec('PRAGMA secure_delete = ON');
  const begin = prepareWide(db, 'INSERT INTO search VALUES (1, ?, ?, ?, 0, ?)');
  const advance = prepareWide(db, 'UPDATE search SET trace = ?, key = ?, indexed = indexed + ?');
  const idOf = cell<number>(db, 'SELECT id FROM texts WHERE trace = ? AND observation = ?');
  const idsOf = tuples<[id: number]>(db, 'SELECT id FROM texts WHERE trace = ?');
  const removeText = prepareWide(db, 'DELETE FROM texts WHERE id = ?');
  const removeTokens = prepareWide(db, 'DELETE FROM text_index WHERE rowid = ?');
  const addText = prepareWide(db, 'INSERT INTO texts (trace, observation, words) VALUES (?, ?, ?)');
  const addTokens = prepareWide(db, 'INSERT INTO text_index (rowid, tokens) VALUES (?, ?)');
  const merge = prepareWide(db, "INSERT INTO text_index (text_index, rank) VALUES ('merge', ?)");
  const changes = cell<number>(db, 'SELECT total_changes()');
  const remove = (id: number | undefined): void => {
    if (id === undefined) return;
    removeTokens.run(id);
    removeText.run(id);
  };
  return {
    'index.begin': (bytes: number, stored: number): void => {
      const { trace, key } = stored === 0 ? { trace: null, key: null } : NEWEST_PLACE;
      begin.run(bytes, trace, key, stored);
    },
    'index.save': ({ traces, observations, texts, next }: SearchStep): void => {
      for (const trace of traces) {
        for (const [id] of idsOf.all(trace)) remove(id);
      }
      for (const { trace, n } of observations) remove(idOf(trace, n));
      for (const { trace, n, words, tokens } of texts) {
        remove(idOf(trace, n));
        const { lastInsertRowid: id } = addText.run(trace, n, words);
        addTokens.run(id, tokens.map(textOfToken).join(' '));
      }
      if (next !== undefined) advance.run(next?.trace ?? null, next?.key ?? null, texts.length);
    },
    /**
     * One step of merging the whole index, which leaves removed tokens out; returns whether there may be more. The first step of a
     * merge begins it.
     */
    'index.merge': (isFirst: boolean): boolean => {
      if (isFirst) merge.run(-MERGED_PAGES);
      const before = changes() ?? 0;
      merge.run(MERGED_PAGES);
      // SQLite counts two changes for a merge that did something.
      return (changes() ?? 0) - before >= 2;
    },
  };
}

export function readOperations(db: DatabaseSync) {
  const walk = tuples<
    [bytes: number, trace: number | null, key: Key | null, indexed: number, stored: number]
  >(db, 'SELECT bytes, trace, key, indexed, stored FROM search');
  return {
    /** Null in a new file. */
    'index.walk': (): SearchWalk | null => {
      const found = walk.get();
      if (found === undefined) return null;
      const [bytes, trace, key, indexed, stored] = found;
      return { bytes, place: trace === null ? null : { trace, key: key ?? '' }, indexed, stored };
    },
  };
}

/** The type of the operations of the index. */
export type IndexOperations = {
  readonly write: ReturnType<typeof writeOperations>;
  readonly read: ReturnType<typeof readOperations>;
};
