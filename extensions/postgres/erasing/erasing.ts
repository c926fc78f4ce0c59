import type { Steps } from '../../../src/component/background.ts';
import { Background, isDue } from '../../../src/component/background.ts';
import type { Clock, Logger, Metrics } from '../../../src/component/component.ts';
import type { ChangeFeed } from '../../../src/store/changes.ts';
import type { ErasureBlocks } from '../../../src/store/erasing/blocks.ts';
import { Eraser } from '../../../src/store/erasing/eraser.ts';
import { erasureStore } from '../../../src/store/erasing/erasure-store.ts';
import { EXPIRED_MS } from '../../../src/store/erasing/expired.ts';
import type { OtherQueues } from '../../../src/store/erasing/other-queues.ts';
import { afterErasures } from '../../../src/store/erasing/precedence.ts';
import type { ErasureStore } from '../../../src/store/erasures.ts';
import { removalCounters } from '../../../src/store/removals.ts';
import type { TraceStore } from '../../../src/store/store.ts';
import type { ProjectStore } from '../../../src/tenancy/contract.ts';
import type { Postgres } from '../connection/pool.ts';
import type { PostgresPools } from '../connection/pools.ts';
import type { PostgresQueues } from '../queue/storage.ts';
import { leasedSteps, workLeases } from '../work-leases.ts';
import { cutAllExpired } from './expired.ts';
import { itemCutter } from './items.ts';
import { postgresErasingTables } from './tables.ts';
import { erasureRequests } from './worklists.ts';

/** How often erasures that another process accepted are looked for. */
const INTERVAL_MS = 5_000;
/** The pause between two steps, for transactions that clients wait for. */
const PAUSE_MS = 5;
/** How often blocks that another process accepted are looked for. */
const BLOCKS_MS = 2_000;

export type PostgresErasureParts = {
  readonly pools: PostgresPools;
  readonly queues: PostgresQueues;
  readonly traces: Pick<TraceStore, 'listTraces'>;
  readonly projects: ProjectStore;
  readonly changes: Pick<ChangeFeed, 'publish'>;
  readonly blocks: ErasureBlocks;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
};

export type PostgresErasures = {
  readonly store: ErasureStore;
  finish(): Promise<void>;
  close(): Promise<void>;
  crash(): void;
};

/** One process at a time carries out the erasures. */
export async function postgresErasures(parts: PostgresErasureParts): Promise<PostgresErasures> {
  const { pools, queues, traces, projects, changes, blocks, clock, logger, metrics } = parts;
  const { housekeeping, write, read, verify } = pools;
  const tables = erasureRequests(write, read);
  // Before the first request.
  await blocks.renew(() => tables.blocks(clock.now()));
  const cutter = itemCutter();
  const others: OtherQueues = { all: () => [] };
  const removed = removalCounters(metrics);
  const leases = workLeases(housekeeping, clock, logger);
  let cutAt: number | undefined;
  const cutExpired = async function* (database: Pick<Postgres, 'query' | 'transaction'>): Steps {
    const now = clock.now();
    if (!isDue(cutAt, EXPIRED_MS, now)) return;
    yield* cutAllExpired({ database, cutter, onRemoved: removed('retention') });
    cutAt = now;
  };
  const work = leasedSteps(leases, 'erasing', { clock, logger }, (database) => {
    const leased = postgresErasingTables({
      ...{ database, outside: verify, cutter, onRemoved: removed('erasure'), logger },
      onShrunk: (batchId, entries) => queues.shrunk(batchId, entries),
      now: () => clock.now(),
    });
    const eraser = new Eraser({
      ...{ tables: leased, queues: others, traces, projects, changes, clock, logger },
    });
    return afterErasures(clock, () => eraser.work(), cutExpired(database));
  });
  const background = new Background({
    ...{ clock, logger, everyMs: INTERVAL_MS, betweenMs: PAUSE_MS },
    failure: 'Erasure could not go on; retrying',
    step: () => work.step(),
  });
  background.wake();
  const blocking = new Background({
    ...{ clock, logger, everyMs: BLOCKS_MS, betweenMs: PAUSE_MS },
    failure: 'Blocks of erasures could not be read; retrying',
    async step() {
      await blocks.renew(() => tables.blocks(clock.now()));
      return false;
    },
  });
  blocking.wake();
  return {
    store: erasureStore({
      tables,
      blocks,
      queues: others,
      projects,
      clock,
      wake: () => background.wake(),
    }),
    async finish() {
      await blocking.finish();
      await work.finish(() => background.finish());
      await queues.refresh();
    },
    async close() {
      await blocking.close();
      await background.close();
      await work.close();
      await cutter.close();
    },
    crash() {
      blocking.stop();
      background.stop();
      void cutter.close();
    },
  };
}
