/** Prices observations again, in the database thread. */
import type { DatabaseSync, SQLInputValue } from 'node:sqlite';
import { tuples } from '../../../src/sqlite/rows.ts';
import type {
  PricedPlace,
  PricedRange,
  PricedStep,
  PricingSource,
  StorePrices,
} from '../../../src/store/pricing.ts';
import { loadPricing, PRICED_ROWS, PricedSum } from '../../../src/store/pricing.ts';
import { contributionOf } from '../../../src/store/rollups/contribution.ts';
import type { Key } from '../../../src/store/rows/observation-row.ts';
import { nameOfKey, ROW } from '../../../src/store/rows/observation-row.ts';
import type { NumberedRow } from '../../../src/store/rows/observation-write.ts';
import { summarize } from '../../../src/store/rows/trace-summary.ts';
import { traceTerms } from '../../../src/store/rows/trace-terms.ts';
import type { ObservationCells } from './statements.ts';
import { COUNTED_CHANGE, OBSERVATION_COLUMN_NAMES, splitRow, summarySaving } from './statements.ts';

type TraceCells = [
  ...place: [n: number, atMs: number, atNs: number],
  createdAt: number,
  updatedAt: number,
  project: string,
  keyId: string | null,
];

const TRACE_CELLS = 'n, at_ms, at_ns, created_at, updated_at, project, key_id';

type Loading =
  | { readonly state: 'loading' | 'loaded' }
  | { readonly state: 'failed'; readonly error: unknown };

/** A step, and whether a trace waits for its summary; null without a pricing. */
export type SqlitePricedStep = (PricedStep & { readonly isSummarized: boolean }) | null;

export function pricingOperations(db: DatabaseSync, prices: StorePrices) {
  const tables = pricedTables(db);
  let loading: Loading = { state: 'loaded' };
  return {
    /** Loads the module, which goes on after the call: `costs.hasLoaded` says when it is in use. */
    'costs.usePricing': (source: PricingSource): void => {
      loading = { state: 'loading' };
      loadPricing(source).then(
        (pricing) => {
          prices.pricing = pricing;
          loading = { state: 'loaded' };
        },
        (error: unknown) => {
          loading = { state: 'failed', error };
        },
      );
    },
    'costs.hasLoaded': (): boolean => {
      if (loading.state === 'failed') throw loading.error;
      return loading.state === 'loaded';
    },
    /** Prices about `PRICED_ROWS` observations: whole traces, and large ones in parts. */
    'costs.priceAgain': (
      range: PricedRange,
      after: PricedPlace | null,
      isDryRun: boolean,
    ): SqlitePricedStep => {
      const { pricing } = prices;
      if (pricing === undefined) return null;
      const sum = new PricedSum();
      let isSummarized = true;
      let place = after;
      for (let read = 0; read < PRICED_ROWS; ) {
        const trace = tables.traceBehind(range, place);
        if (trace === undefined) return { ...sum.step(null), isSummarized };
        const [n, ms, ns] = trace;
        const from = place?.trace === n ? place.key : null;
        const found = tables.rowsBehind(n, from);
        const isWhole = found.length < PRICED_ROWS && from === null;
        const changed = sum.add(found, pricing);
        if (changed.length > 0 && !isDryRun) {
          tables.save(changed);
          if (isWhole) tables.saveSummary(trace, withChanges(found, changed));
          else tables.markStale(n);
          isSummarized &&= isWhole;
        }
        read += Math.max(found.length, 1);
        const last = found.length < PRICED_ROWS ? undefined : found.at(-1);
        place = { ms, ns, trace: n, key: last?.row[ROW.KEY] ?? null };
      }
      return { ...sum.step(place), isSummarized };
    },
  };
}

function withChanges(
  found: readonly NumberedRow<number>[],
  changed: readonly NumberedRow<number>[],
): NumberedRow<number>[] {
  const byKey = new Map(changed.map((one) => [nameOfKey(one.row[ROW.KEY]), one]));
  return found.map((one) => byKey.get(nameOfKey(one.row[ROW.KEY])) ?? one);
}

function pricedTables(db: DatabaseSync) {
  const nextTrace = tuples<TraceCells>(
    db,
    `SELECT ${TRACE_CELLS} FROM traces INDEXED BY traces_by_time
     WHERE project = ? AND (at_ms, at_ns, n) > (?, ?, ?) AND at_ms < ? ORDER BY at_ms, at_ns, n LIMIT 1`,
  );
  const sameTrace = tuples<TraceCells>(
    db,
    `SELECT ${TRACE_CELLS} FROM traces WHERE n = ? AND project = ?`,
  );
  const select = `SELECT ${OBSERVATION_COLUMN_NAMES.join(', ')} FROM observations WHERE trace = ?`;
  const first = tuples<ObservationCells>(db, `${select} ORDER BY key LIMIT ${PRICED_ROWS}`);
  const next = tuples<ObservationCells>(
    db,
    `${select} AND key > ? ORDER BY key LIMIT ${PRICED_ROWS}`,
  );
  const update = db.prepare('UPDATE observations SET details = ? WHERE n = ?');
  const save = summarySaving(db);
  const stale = db.prepare(`UPDATE traces SET ${COUNTED_CHANGE} WHERE n = ?`);
  return {
    /** The trace in progress, or the next one. */
    traceBehind({ projectId, from, to }: PricedRange, place: PricedPlace | null) {
      if (place !== null && place.key !== null) {
        const same = sameTrace.get(place.trace, projectId);
        if (same !== undefined) return same;
      }
      const behind: SQLInputValue[] =
        place === null ? [from, -1, 0] : [place.ms, place.ns, place.trace];
      return nextTrace.get(projectId, ...behind, to);
    },
    rowsBehind(trace: number, key: Key | null): NumberedRow<number>[] {
      return (key === null ? first.all(trace) : next.all(trace, key)).map(splitRow);
    },
    save(changed: readonly NumberedRow<number>[]): void {
      for (const { n, row } of changed) update.run(row[ROW.DETAILS], n);
    },
    saveSummary(cells: TraceCells, found: readonly NumberedRow<number>[]): void {
      const [n, , , createdAt, updatedAt, project, keyId] = cells;
      const summary = summarize(found, updatedAt);
      const terms = traceTerms(project, keyId, summary);
      const rollup = JSON.stringify(contributionOf({ createdAt, keyId, summary }));
      save({ n, createdAt, summary, terms, rollup });
    },
    markStale(trace: number): void {
      stale.run(trace);
    },
  };
}
