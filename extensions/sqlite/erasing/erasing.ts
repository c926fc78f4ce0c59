import type { Steps } from '../../../src/component/background.ts';
import { Background, inSteps, isDue } from '../../../src/component/background.ts';
import type { Logger } from '../../../src/component/component.ts';
import type { ChangeFeed } from '../../../src/store/changes.ts';
import type { ErasureBlocks } from '../../../src/store/erasing/blocks.ts';
import { Eraser, POSTPONED_MS } from '../../../src/store/erasing/eraser.ts';
import { erasureStore } from '../../../src/store/erasing/erasure-store.ts';
import { EXPIRED_MS } from '../../../src/store/erasing/expired.ts';
import type { OtherQueues } from '../../../src/store/erasing/other-queues.ts';
import { afterErasures } from '../../../src/store/erasing/precedence.ts';
import type { ErasureStore } from '../../../src/store/erasures.ts';
import type { TraceStore } from '../../../src/store/store.ts';
import type { ProjectStore } from '../../../src/tenancy/contract.ts';
import type { ClockWatch } from '../clock-watch.ts';
import { cutExpired } from './expired.ts';
import type { SqliteErasingParts } from './tables.ts';
import { sqliteErasingTables } from './tables.ts';

/** The pause after a step, for calls that a client waits for. */
const BETWEEN_MS = 5;
/** The interval of looking for blocks that have ended. */
const UNBLOCK_MS = 3_600_000;

export type SqliteErasures = {
  readonly store: ErasureStore;
  finish(): Promise<void>;
  close(): Promise<void>;
  crash(): void;
};

/** Carries out erasures in the background, and goes on with those that an earlier process left. */
export function sqliteErasures(
  parts: SqliteErasingParts & {
    readonly traces: Pick<TraceStore, 'listTraces'>;
    readonly projects: ProjectStore;
    readonly changes: ChangeFeed;
    readonly logger: Logger;
    readonly blocks: ErasureBlocks;
    readonly clockWatch: ClockWatch;
  },
): SqliteErasures {
  const { clock, clockWatch, logger, projects, blocks, database } = parts;
  const tables = sqliteErasingTables(parts);
  const queues: OtherQueues = { all: () => [] };
  const eraser = new Eraser({ ...parts, tables, queues });
  let cutAt: number | undefined;
  const cutDaily = async function* (): Steps {
    const now = clock.now();
    if (!isDue(cutAt, EXPIRED_MS, now)) return;
    yield* cutExpired(parts, null);
    cutAt = now;
  };
  const background = new Background({
    clock,
    logger,
    betweenMs: BETWEEN_MS,
    failure: 'Erasure could not go on; retrying',
    everyMs: () => (eraser.hasPostponed ? POSTPONED_MS : UNBLOCK_MS),
    step: inSteps(async function* () {
      await blocks.renew(() => tables.blocks(clock.now()));
      yield* afterErasures(clock, () => eraser.work(), cutDaily());
      while (clockWatch.isRight() && (await database.write('erasing.unblock', [clock.now()])))
        yield;
    }),
  });
  background.wake();
  return {
    store: erasureStore({ tables, blocks, queues, projects, clock, wake: () => background.wake() }),
    finish: () => background.finish(),
    close: () => background.close(),
    crash: () => background.stop(),
  };
}
