/** Reads rollups, in a reading thread. An operation is a transaction, so it reads each change once: in a row, or as a change. */
import type { DatabaseSync } from 'node:sqlite';
import { cell, finds, tuples } from '../../../src/sqlite/rows.ts';
import type { Look, TraceScope } from '../../../src/store/plan/step.ts';
import { successorOf } from '../../../src/store/plan/successor.ts';
import type { RollupChange } from '../../../src/store/rollups/contribution.ts';
import type {
  ContributedRow,
  ContributionStep,
} from '../../../src/store/rollups/contribution-page.ts';
import {
  CONTRIBUTED_COLUMNS,
  contributedBytes,
} from '../../../src/store/rollups/contribution-page.ts';
import { storedChanges } from '../../../src/store/rollups/delta.ts';
import { ROLLUP_FIELDS } from '../../../src/store/rollups/fields.ts';
import type {
  FacetAsked,
  FacetPart,
  RollupSpan,
  StatsAsked,
  StatsRow,
  StatsRows,
} from '../../../src/store/rollups/reading.ts';
import { FacetSum, StatsSum, spansOf, statsSpans } from '../../../src/store/rollups/reading.ts';
import { takeRows } from '../../../src/store/rows/page.ts';
import { workClock } from '../../../src/thread/work-clock.ts';
import { queryRunner } from '../search/dialect.ts';
import { stepReading } from './step-reading.ts';

type StatsCells = readonly [
  start: number,
  value: string,
  latencies: Uint8Array,
  ...numbers: number[],
];

const FIRST_NUMBER = 3;
const STATS_CELLS =
  'r.start, r.value, r.latencies, r.traces, r.observations, r.errors, r.input, r.output, r.cached, r.cost';

/** Rows of a span that cost as much as the lookup of a value in a period. */
const ROWS_A_LOOKUP = 4;

/** A span of a field in the rows of a project. */
type SpanValues = [project: string, step: number, field: number, from: number, to: number];

export function rollupReadOperations(db: DatabaseSync) {
  return { ...facetOperation(db), ...statsOperation(db), ...contributionOperations(db) };
}

function facetOperation(db: DatabaseSync) {
  const changesOf = pendingChanges(db);
  const facet = tuples<[value: string, traces: number]>(
    db,
    `SELECT value, sum(traces) FROM rollups
     WHERE project = ?1 AND step = ?2 AND field = ?3 AND start >= ?4 AND start < ?5
       AND value >= ?6 AND (?7 IS NULL OR value < ?7) GROUP BY value`,
  );
  const others = tuples<[start: number, value: string, traces: number]>(
    db,
    `SELECT start, value, traces FROM rollups
     WHERE project = ? AND step = ? AND field = ? AND start >= ? AND start < ?`,
  );
  const own = finds(
    db,
    `SELECT 1 FROM rollups
     WHERE project = ? AND step = ? AND field = ? AND start = ? AND value = ?`,
  );
  return {
    'rollups.facet': (project: string, asked: FacetAsked): FacetPart => {
      const spent = workClock();
      const sum = new FacetSum(asked);
      const field = ROLLUP_FIELDS[asked.field];
      const behind = successorOf(asked.prefix) ?? null;
      for (const one of spansOf(asked.hours)) {
        const named = facet.iterate(...valuesOf(project, one, field), asked.prefix, behind);
        for (const [value, traces] of named) sum.add(value, traces);
        for (const cells of others.iterate(...valuesOf(project, one, -field))) {
          sum.addOthers(...cells);
        }
      }
      for (const change of changesOf(project)) sum.addChange(change);
      for (const row of sum.undecided()) {
        const { step, start, value } = row;
        if (own(project, step, field, start, value)) sum.addOwn(row);
      }
      return { ...sum.part(), spentMs: spent() };
    },
  };
}

function statsOperation(db: DatabaseSync) {
  const changesOf = pendingChanges(db);
  const span = tuples<StatsCells>(
    db,
    `SELECT ${STATS_CELLS} FROM rollups r
     WHERE r.project = ? AND r.step = ? AND r.field = ? AND r.start >= ? AND r.start < ?`,
  );
  const lookup = tuples<StatsCells>(
    db,
    `SELECT ${STATS_CELLS} FROM rollups r
     WHERE r.project = ? AND r.step = ? AND r.field = ? AND r.start = ? AND r.value = ?`,
  );

  const among = tuples<StatsCells>(
    db,
    `SELECT ${STATS_CELLS} FROM rollups r
     WHERE r.project = ? AND r.step = ? AND r.field = ? AND r.start >= ? AND r.start < ?
       AND +r.value IN (SELECT value FROM json_each(?))`,
  );
  const counted = cell<number>(
    db,
    `SELECT count(*) FROM (SELECT 1 FROM rollups r
     WHERE r.project = ? AND r.step = ? AND r.field = ? AND r.start >= ? AND r.start < ? LIMIT ?)`,
  );

  /** The rows of some values. A row of the span costs a fraction of a lookup of a value in a period. */
  function wanted(span: SpanValues, values: readonly string[]): Iterable<StatsCells> {
    const [, step, , from, to] = span;
    const most = ROWS_A_LOOKUP * values.length * Math.ceil((to - from) / step);
    // A text with NUL or half a character differs in JSON of SQLite.
    const isPlain = values.every((value) => value.isWellFormed() && !value.includes('\0'));
    return isPlain && (counted(...span, most) ?? most) < most
      ? among.all(...span, JSON.stringify(values))
      : lookups(span, values);
  }

  function* lookups([project, step, field, from, to]: SpanValues, values: readonly string[]) {
    for (let start = from; start < to; start += step) {
      for (const value of values) {
        const found = lookup.get(project, step, field, start, value);
        if (found !== undefined) yield found;
      }
    }
  }

  return {
    'rollups.stats': (project: string, asked: StatsAsked): StatsRows => {
      const sum = new StatsSum(asked);
      const field = ROLLUP_FIELDS[asked.field];
      for (const one of statsSpans(asked)) {
        const values = valuesOf(project, one, field);
        // Not `iterate`, which costs more for each row. Statistics have a bounded number of points.
        const named =
          asked.values === null ? span.all(...values) : wanted(values, [...new Set(asked.values)]);
        for (const cells of named) sum.addRow(statsRow(field, cells));
        if (field === 0) continue;
        for (const cells of span.iterate(...valuesOf(project, one, -field))) {
          sum.addRow(statsRow(-field, cells));
        }
      }
      for (const change of changesOf(project)) sum.addChange(change);
      return sum.rows();
    },
  };
}

function valuesOf(project: string, { step, from, to }: RollupSpan, field: number): SpanValues {
  return [project, step, field, from, to];
}

function statsRow(field: number, cells: StatsCells): StatsRow {
  const [start, value, latencies] = cells;
  // Not a rest pattern, which costs several times as much as the slice.
  const numbers = cells.slice(FIRST_NUMBER) as number[];
  return { field, start, value, latencies, numbers };
}

function contributionOperations(db: DatabaseSync) {
  const runQuery = queryRunner(db);
  const readStep = stepReading<ContributedRow>(db);
  return {
    'rollups.contributions': (scope: TraceScope, look: Look): ContributionStep =>
      runQuery(look.query, (dialect) => {
        const spent = workClock();
        const { found, end } = readStep(dialect, scope, look, CONTRIBUTED_COLUMNS);
        const taken = takeRows(found, look.limit, contributedBytes);
        return { ...taken, end, spentMs: spent() };
      }),
  };
}

/** The changes that are not in the rows yet. */
function pendingChanges(db: DatabaseSync): (project: string) => Iterable<RollupChange> {
  const deltas = tuples<[kind: number, text: string]>(
    db,
    'SELECT kind, changes FROM rollup_deltas WHERE project = ? ORDER BY n',
  );
  return function* (project) {
    for (const [kind, text] of deltas.iterate(project)) yield* storedChanges(kind, text);
  };
}
