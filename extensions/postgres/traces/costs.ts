import type {
  CostStore,
  PricedPlace,
  PricedRange,
  PricedStep,
  Pricing,
  StorePrices,
} from '../../../src/store/pricing.ts';
import { loadPricing, PRICED_ROWS, PricedSum } from '../../../src/store/pricing.ts';
import { contributionOf } from '../../../src/store/rollups/contribution.ts';
import { RollupDelta } from '../../../src/store/rollups/delta.ts';
import type { Key } from '../../../src/store/rows/observation-row.ts';
import { summarize } from '../../../src/store/rows/trace-summary.ts';
import { traceTerms } from '../../../src/store/rows/trace-terms.ts';
import type { Postgres } from '../connection/pool.ts';
import type { PostgresClient, Statement } from '../connection/statement.ts';
import { row, rows } from '../connection/statement.ts';
import { MARKED_STALE, savePriced, saveSummary } from './changes.ts';
import type { PostedRow } from './postings.ts';
import { POSTED_ROW_COLUMNS, postingsOfRow } from './postings.ts';
import { insertDelta } from './rollup-folding.ts';
import type { ObservationTableRow } from './rows.ts';
import { entryOf, OBSERVATION_COLUMNS } from './rows.ts';
import type { Entry } from './snapshot.ts';
import { bytesOfKey, textOrNull } from './text.ts';

type Database = Pick<Postgres, 'query' | 'transaction'>;

/** Writers price merged observations by the same `prices`. */
export function postgresCosts(database: Database, prices: StorePrices): CostStore {
  return {
    async usePricing(source) {
      prices.pricing = await loadPricing(source);
    },
    async priceAgain(range, after, isDryRun) {
      const { pricing } = prices;
      return pricing === undefined ? null : priceAgain(database, pricing, range, after, isDryRun);
    },
  };
}

type TracePlace = { readonly n: number; readonly at_ms: number; readonly at_ns: number };

/**
 * Prices about `PRICED_ROWS` observations: whole traces, and large ones in parts. A failure behind the first trace ends the step there,
 * because the traces before it are saved, and would not count as changed again.
 */
async function priceAgain(
  database: Database,
  pricing: Pricing,
  range: PricedRange,
  after: PricedPlace | null,
  isDryRun: boolean,
): Promise<PricedStep> {
  const sum = new PricedSum();
  let place = after;
  try {
    for (let read = 0; read < PRICED_ROWS; ) {
      const trace = await traceBehind(database, range, place);
      if (trace === undefined) return sum.step(null);
      const from = place?.trace === trace.n ? place.key : null;
      let { found, changed, priced } = price(await entriesBehind(database, trace.n, from), pricing);
      // Most traces do not change, and need no transaction.
      if (!isDryRun && changed.length > 0) {
        ({ found, priced } = await savePrices(database, trace.n, from, pricing));
      }
      sum.join(priced);
      read += Math.max(found.length, 1);
      const last = found.length < PRICED_ROWS ? undefined : found.at(-1);
      place = { ms: trace.at_ms, ns: trace.at_ns, trace: trace.n, key: last?.key ?? null };
    }
  } catch (error) {
    if (place === after) throw error;
  }
  return sum.step(place);
}

/** Observations as they were, and what a pricing makes of them. */
type PricedEntries = {
  readonly found: readonly Entry[];
  readonly changed: readonly Entry[];
  readonly priced: PricedSum;
};

function price(found: readonly Entry[], pricing: Pricing): PricedEntries {
  const priced = new PricedSum();
  return { found, changed: priced.add(found, pricing), priced };
}

/** The trace in progress, or the next one. */
async function traceBehind(
  client: PostgresClient,
  { projectId, from, to }: PricedRange,
  place: PricedPlace | null,
): Promise<TracePlace | undefined> {
  if (place !== null && place.key !== null) {
    return { n: place.trace, at_ms: place.ms, at_ns: place.ns };
  }
  return row<TracePlace>(
    client,
    `SELECT n, at_ms, at_ns FROM traces
     WHERE project = $1 AND (at_ms, at_ns, n) > ($2, $3, $4) AND at_ms < $5
     ORDER BY at_ms, at_ns, n LIMIT 1`,
    place === null
      ? [projectId, from, -1, 0, to]
      : [projectId, place.ms, place.ns, place.trace, to],
  );
}

const COLUMNS = OBSERVATION_COLUMNS.map(({ name }) => name).join(', ');

async function entriesBehind(
  client: PostgresClient,
  trace: number,
  key: Key | null,
): Promise<Entry[]> {
  const found = await rows<ObservationTableRow>(
    client,
    `SELECT ${COLUMNS} FROM observations WHERE trace = $1 AND ($2::bytea IS NULL OR key > $2)
     ORDER BY key LIMIT ${PRICED_ROWS}`,
    [trace, key === null ? null : bytesOfKey(key)],
  );
  return found.map(entryOf);
}

type LockedTrace = {
  readonly created_at: number;
  readonly updated_at: number;
  readonly stale_changes: number;
  readonly project: string;
  readonly key_id: string | null;
  readonly rollup: string | null;
} & PostedRow;

/**
 * Prices the observations under the lock that writers of the trace take, and saves them with the summary of the trace. Resolves with the
 * observations as they were before.
 */
async function savePrices(
  database: Database,
  trace: number,
  from: Key | null,
  pricing: Pricing,
): Promise<PricedEntries> {
  return database.transaction(async (client) => {
    const locked = await row<LockedTrace>(
      client,
      `SELECT created_at, updated_at, stale_changes, project, key_id, rollup,
         ${POSTED_ROW_COLUMNS} FROM traces t WHERE n = $1 AND project <> '' FOR UPDATE`,
      [trace],
    );
    const entries = locked === undefined ? [] : await entriesBehind(client, trace, from);
    const made = price(entries, pricing);
    const { found, changed } = made;
    if (locked === undefined || changed.length === 0) return made;
    const statements = [savePriced(changed)];
    const isWhole = found.length < PRICED_ROWS && from === null;
    if (isWhole) {
      statements.push(...saveSummarized(trace, locked, withChanges(found, changed)));
    } else {
      statements.push([MARK_STALE, [trace]]);
    }
    await client.commit(statements);
    return made;
  });
}

function saveSummarized(n: number, locked: LockedTrace, entries: readonly Entry[]): Statement[] {
  const { created_at: createdAt, project } = locked;
  const keyId = textOrNull(locked.key_id);
  const summary = summarize(entries, locked.updated_at);
  const terms = traceTerms(project, keyId, summary);
  const delta = new RollupDelta();
  const rollup = delta.replace(locked.rollup, contributionOf({ createdAt, keyId, summary }));
  const trace = { n, createdAt, summary, terms, rollup, postings: postingsOfRow(locked) };
  return [saveSummary(locked.stale_changes, trace), ...insertDelta(project, delta)];
}

const MARK_STALE = `UPDATE traces SET ${MARKED_STALE} WHERE n = $1`;

function withChanges(found: readonly Entry[], changed: readonly Entry[]): Entry[] {
  const byNumber = new Map(changed.map((entry) => [entry.n, entry]));
  return found.map((entry) => byNumber.get(entry.n) ?? entry);
}
