/** The part of the store that the index of payload text is made of. */
import type { DatabaseSync } from 'node:sqlite';
import { cell, finds, tuples } from '../../../src/sqlite/rows.ts';
import type { Key } from '../../../src/store/rows/observation-row.ts';
import { idOfTrace } from '../../../src/store/rows/stored.ts';
import type {
  SearchChanges,
  SearchPlace,
  StoredSources,
} from '../../../src/store/search/indexer.ts';
import { STEP_OBSERVATIONS } from '../../../src/store/search/indexer.ts';
import { COUNTED_CHANGES } from '../../../src/store/search/status.ts';
import type { SearchSource } from '../../../src/store/search/texts.ts';
import { labelsOf, searchedRefs } from '../../../src/store/search/texts.ts';
import { HIDDEN } from '../batches/purge-operations.ts';
import type { FoundCells } from '../traces/read-operations.ts';
import { storedRow } from '../traces/read-operations.ts';
import { OBSERVATION_COLUMN_NAMES } from '../traces/statements.ts';
import { textMarks } from './marks.ts';

export function textChangeOperations(db: DatabaseSync) {
  const marks = textMarks(db);
  const done = db.prepare('DELETE FROM text_changes WHERE n = ?');
  const forget = db.prepare('DELETE FROM text_changes');
  const turnOff = db.prepare('DELETE FROM text_search');
  const turnOn = db.prepare(
    'INSERT INTO text_search VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET bytes = excluded.bytes',
  );
  return {
    /** From now on writes note their changes, or do not. `bytes` is 0 without payload search. */
    'texts.configure': (bytes: number, isNew: boolean): void => {
      if (bytes === 0 || isNew) forget.run();
      if (bytes === 0) turnOff.run();
      else turnOn.run(bytes);
      marks.isOn = bytes > 0;
    },
    'texts.indexed': (changes: readonly number[]): void => {
      for (const n of changes) done.run(n);
    },
  };
}

/** A row with the project of its trace. */
type SourceCells = [project: string, trace: number, ...found: FoundCells];
type Change = [n: number, trace: number, observation: number | null];

export function textReadOperations(db: DatabaseSync) {
  const select = `SELECT t.project, t.n, t.key, t.long_id, t.newest_ms,
    ${OBSERVATION_COLUMN_NAMES.map((column) => `o.${column}`).join(', ')}`;
  const changes = tuples<Change>(
    db,
    `SELECT n, trace, observation FROM text_changes ORDER BY n LIMIT ${STEP_OBSERVATIONS}`,
  );
  const changed = tuples<SourceCells>(
    db,
    `${select} FROM observations o JOIN traces t ON t.n = o.trace WHERE o.n = ? AND o.trace = ?`,
  );
  const before = tuples<SourceCells>(
    db,
    `${select} FROM observations o CROSS JOIN traces t ON t.n = o.trace
     WHERE (o.trace, o.key) < (?, ?) ORDER BY o.trace DESC, o.key DESC LIMIT ${STEP_OBSERVATIONS}`,
  );
  const waiting = cell<number>(
    db,
    `SELECT count(*) FROM (SELECT 1 FROM text_changes LIMIT ${COUNTED_CHANGES})`,
  );
  const isMarked = finds(db, 'SELECT 1 FROM text_changes WHERE n <= ?');
  const newestMark = cell<number>(db, 'SELECT max(n) FROM text_changes');
  // The first and the last entry of the index by number: a count would read all of it.
  const stored = cell<number>(
    db,
    'SELECT coalesce((SELECT max(n) FROM observations) - (SELECT min(n) FROM observations) + 1, 0)',
  );
  const sourceOf = sourceReading(db);
  return {
    'texts.changes': (): SearchChanges => {
      const found = changes.all();
      const observations = found.flatMap(([, trace, n]) => (n === null ? [] : [{ trace, n }]));
      return {
        numbers: found.map(([n]) => n),
        traces: found.flatMap(([, trace, n]) => (n === null ? [trace] : [])),
        observations,
        sources: unique(observations).flatMap(({ trace, n }) => {
          const cells = changed.get(n, trace);
          return cells === undefined || cells[0] === HIDDEN ? [] : [sourceOf(cells)];
        }),
      };
    },
    'texts.stored': ({ trace, key }: SearchPlace): StoredSources => {
      const found = before.all(trace, key);
      const last = found.at(-1);
      const sources = found.filter(([project]) => project !== HIDDEN).map(sourceOf);
      const isLast = last === undefined || found.length < STEP_OBSERVATIONS;
      return { sources, next: isLast ? null : placeOf(last) };
    },
    'texts.counts': (): { stored: number; waiting: number } => ({
      stored: stored() ?? 0,
      waiting: waiting() ?? 0,
    }),
    /** The number of the newest change; 0 without one. */
    'texts.newestChange': (): number => newestMark() ?? 0,
    'texts.isWaiting': (upTo: number): boolean => isMarked(upTo),
  };
}

function unique<Change extends { readonly n: number }>(changes: readonly Change[]): Change[] {
  return [...new Map(changes.map((change) => [change.n, change])).values()];
}

const KEY = 5 + OBSERVATION_COLUMN_NAMES.indexOf('key');

function placeOf(cells: SourceCells): SearchPlace {
  return { trace: cells[1], key: cells[KEY] as Key };
}

function sourceReading(db: DatabaseSync): (cells: SourceCells) => SearchSource {
  const stored = storedRow(db);
  return ([project, trace, ...found]) => {
    const { n, row, traceKey, traceLongId, payload } = stored(found);
    const labels = labelsOf(idOfTrace(traceKey, traceLongId), row);
    return { project, trace, n, labels, fields: searchedRefs(payload) };
  };
}
