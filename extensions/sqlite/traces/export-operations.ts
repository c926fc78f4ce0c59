/** Reads observations of several traces, in a reading thread. */
import type { DatabaseSync } from 'node:sqlite';
import { tuples } from '../../../src/sqlite/rows.ts';
import type { TraceScope } from '../../../src/store/plan/step.ts';
import type { LineRow, PackedLines } from '../../../src/store/rows/line-page.ts';
import { packLines } from '../../../src/store/rows/line-page.ts';
import { cutRow, listedRow, rowBytes } from '../../../src/store/rows/listed.ts';
import { lineMaker } from '../../../src/store/rows/observation-line.ts';
import type { Key } from '../../../src/store/rows/observation-row.ts';
import type { FoundRows } from '../../../src/store/rows/page.ts';
import { takeRows } from '../../../src/store/rows/page.ts';
import type { Place } from '../../../src/store/rows/place.ts';
import { FIRST_PLACE, placeOfRow } from '../../../src/store/rows/place.ts';
import { idOfTrace } from '../../../src/store/rows/stored.ts';
import type { FoundCells, SourceRow, StoredRow } from './read-operations.ts';
import { PAGE_OF_TRACE, PLACE, sourceRow, storedRow, TIME } from './read-operations.ts';
import type { ObservationCells } from './statements.ts';
import { OBSERVATION_COLUMN_NAMES, splitRow } from './statements.ts';

/** `after`: the place in the first trace behind which the lines begin. `staleBefore`: see `traceOf`. */
export type LinesAsked = {
  readonly after: Place | null;
  readonly limit: number;
  readonly staleBefore: number;
};

// The columns are whole: cutting them in the statement costs a sixth of a row.
const OF_TRACE = `SELECT ${OBSERVATION_COLUMN_NAMES.join(', ')} FROM observations o WHERE o.trace = ?1`;
const LINES = `${OF_TRACE} ORDER BY ${PLACE} LIMIT ?2`;
const LINES_BEHIND = `${OF_TRACE} AND ${TIME} >= ?2 AND (${PLACE}) > (?2, ?3, ?4)
  ORDER BY ${PLACE} LIMIT ?5`;

export function exportOperations(db: DatabaseSync) {
  const page = tuples<FoundCells>(db, PAGE_OF_TRACE.all);
  const { ms, ns, n } = FIRST_PLACE;
  const [stored, source] = [storedRow(db), sourceRow(db)];
  function* observationsIn<Row extends StoredRow>(
    { project, since }: TraceScope,
    keys: readonly Key[],
    most: number,
    rowOf: (cells: FoundCells) => Row,
  ): Generator<Row> {
    for (const key of keys) {
      for (const cells of page.iterate(project, since, key, ms, ns, n, most)) {
        const each = rowOf(cells);
        yield { ...each, row: listedRow(each.row) };
      }
    }
  }
  const traceOf = tuples<[n: number, longId: string | null, newestMs: number | null]>(
    db,
    'SELECT n, long_id, newest_ms FROM traces WHERE project = ? AND updated_at >= ? AND key = ?',
  );
  const [begin, behind] = [
    tuples<ObservationCells>(db, LINES),
    tuples<ObservationCells>(db, LINES_BEHIND),
  ];
  function* linesIn(
    scope: TraceScope,
    keys: readonly Key[],
    lines: LinesAsked,
  ): Generator<LineRow> {
    const { project: projectId, since } = scope;
    const most = lines.limit + 1;
    let { after } = lines;
    for (const [trace, key] of keys.entries()) {
      const cells = traceOf.get(projectId, since, key);
      if (cells === undefined) continue;
      const [number, longId, newestMs] = cells;
      const traceId = idOfTrace(key, longId);
      const lineOf = lineMaker({ projectId, traceId, newestMs, staleBefore: lines.staleBefore });
      const found =
        after === null
          ? begin.iterate(number, most)
          : behind.iterate(number, after.ms, after.ns, after.n, most);
      for (const cells of found) {
        const { n, row, state } = splitRow(cells);
        const cut = cutRow(row);
        yield { trace, place: placeOfRow(n, cut), line: lineOf(cut, state) };
      }
      after = null;
    }
  }
  return {
    /** The JSON of the observations: bytes move to another thread at a fraction of the cost of a row. */
    'traces.linesOf': (scope: TraceScope, keys: readonly Key[], lines: LinesAsked): PackedLines =>
      packLines(linesIn(scope, keys, lines), lines.limit),
    /** The observations of the traces, in the order of the keys. */
    'traces.observationsOf': (
      scope: TraceScope,
      keys: readonly Key[],
      limit: number,
    ): FoundRows<StoredRow> =>
      takeRows(observationsIn(scope, keys, limit + 1, stored), limit, ({ row }) => rowBytes(row)),
    /** The same observations, with the events of each. */
    'traces.sourcesOf': (
      scope: TraceScope,
      keys: readonly Key[],
      limit: number,
    ): FoundRows<SourceRow> =>
      takeRows(observationsIn(scope, keys, limit + 1, source), limit, ({ row }) => rowBytes(row)),
  };
}
