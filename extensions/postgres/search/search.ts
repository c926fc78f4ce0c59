import { Background } from '../../../src/component/background.ts';
import type { Clock, Logger } from '../../../src/component/component.ts';
import { indexTexts } from '../../../src/store/search/indexer.ts';
import type { SearchStatus, SearchStore } from '../../../src/store/search/status.ts';
import { SEARCH_OFF } from '../../../src/store/search/status.ts';
import { textCutter } from '../../../src/store/search/text-cutter.ts';
import type { TraceStore } from '../../../src/store/store.ts';
import type { PostgresPools } from '../connection/pools.ts';
import { leasedSteps, workLeases } from '../work-leases.ts';
import { configureSearch, searchStatus, searchTables } from './tables.ts';

/** How often changes are looked for. */
const INTERVAL_MS = 2_000;
/** The pause between two steps, for transactions that clients wait for. */
const PAUSE_MS = 10;

export type PostgresSearch = SearchStore & {
  /** The progress, for health; undefined without payload search. */
  progress(): SearchStatus | undefined;
  finish(): Promise<void>;
  close(): Promise<void>;
  crash(): void;
};

type Parts = {
  readonly pools: Pick<PostgresPools, 'housekeeping' | 'read'>;
  readonly traces: Pick<TraceStore, 'getBatches' | 'batchStamps'>;
  readonly clock: Clock;
  readonly logger: Logger;
};

/** Makes the index of payload text. One process at a time does it, apart from housekeeping, whose steps may be many. */
export function postgresSearch(
  { pools, traces, clock, logger }: Parts,
  bytes: number | undefined,
): PostgresSearch {
  const cutter = textCutter(traces);
  const leases = workLeases(pools.housekeeping, clock, logger);
  let isConfigured = false;
  // Until the first step.
  let last: SearchStatus | undefined =
    bytes === undefined ? undefined : { ...SEARCH_OFF, state: 'indexing', payloadBytes: bytes };
  const work = leasedSteps(leases, 'search', { clock, logger }, async function* (database) {
    // Once: of processes with different sizes, the one that starts last decides.
    if (!isConfigured) await configureSearch(database, bytes ?? 0);
    isConfigured = true;
    yield;
    if (bytes !== undefined) yield* indexTexts(searchTables(database, bytes), cutter);
  });
  const background = new Background({
    ...{ clock, logger, betweenMs: PAUSE_MS },
    // Without payload search, only until the index is gone.
    ...(bytes === undefined ? {} : { everyMs: INTERVAL_MS }),
    failure: 'Payload text could not be indexed; retrying',
    async step() {
      const hasMore = await work.step();
      if (bytes !== undefined) last = await searchStatus(pools.housekeeping);
      return hasMore;
    },
  });
  background.wake();
  return {
    async status() {
      const found = await searchStatus(pools.read);
      if (bytes === undefined || found.payloadBytes === bytes) return found;
      // It has not begun yet.
      return { ...found, state: 'indexing', payloadBytes: bytes, indexed: 0 };
    },
    progress: () => last,
    finish: () => work.finish(() => background.finish()),
    async close() {
      await background.close();
      await work.close();
      await cutter.close();
    },
    crash() {
      background.stop();
      void cutter.close();
    },
  };
}
