import { z } from 'zod';
import { pause } from '../component/clock.ts';
import type { Clock } from '../component/component.ts';
import type { PricedPlace, PricedStep } from '../store/pricing.ts';
import { priceWithRetries } from '../store/pricing.ts';
import type { Store } from '../store/store.ts';
import { moment } from './moment.ts';
import { ControlError, readArguments } from './protocol.ts';
import type { StoreWork } from './store-work.ts';
import { projectFor } from './store-work.ts';
import { endsWithin } from './usage-verify.ts';

/** How far a recomputation is, and its result at the end. Amounts are in 10⁻⁹ USD. */
export type Recomputation = {
  readonly is_done: boolean;
  /** Observations whose cost no client sent. */
  readonly observations: number;
  readonly changed: number;
  readonly cost_before: number;
  readonly cost_after: number;
};

const time = moment.transform((text) => Date.parse(text));

const recomputeArguments = z.strictObject({
  /** All projects if left out. */
  project: z.string().optional(),
  from: time,
  to: time.optional(),
  dry_run: z.boolean().default(false),
  /** Longest wait for the result. Without it the answer is the result. */
  wait_ms: z.int().min(0).max(30_000).optional(),
  /** The caller's name for its recomputation, the same in each of its requests. */
  run: z.string().min(1).max(100).default(''),
});

/** A recomputation that goes on between the requests of its caller. */
type Run = {
  readonly caller: string;
  readonly result: Promise<void>;
  progress: Recomputation;
};

const runs = new WeakMap<Store, Run>();

/** The pause between two steps, for requests that clients wait for. */
const PAUSE_MS = 5;

/**
 * Prices what the store has again, which may take hours. It goes on in the background, and a caller with a `run` and a `wait_ms`
 * repeats the request until it is done. One recomputation of a store runs at a time. A repeated one changes nothing.
 */
export async function recomputeCosts(
  { store, clock }: Pick<StoreWork, 'store' | 'clock'>,
  args: unknown,
): Promise<Recomputation> {
  const { wait_ms: wait, ...asked } = readArguments(recomputeArguments, args);
  const run = await runOf(store, asked, clock);
  if (wait !== undefined && !(await endsWithin(run, wait, clock))) return run.progress;
  await run.result;
  return run.progress;
}

type Asked = Omit<z.output<typeof recomputeArguments>, 'wait_ms'>;

/** The caller's recomputation, in progress or finished, or a new one. */
async function runOf(store: Store, asked: Asked, clock: Clock): Promise<Run> {
  const { run: caller, project, from, to } = asked;
  const projects =
    project === undefined ? await store.projects.list() : [await projectFor(store, project)];
  const known = runs.get(store);
  if (known !== undefined && caller !== '' && known.caller === caller) return known;
  if (known !== undefined && !known.progress.is_done) {
    throw new ControlError('busy', 'another recomputation of costs is running');
  }
  const end = to ?? clock.now() + 1;
  if (from >= end) throw new ControlError('invalid_request', 'from must be before to');
  const ended = Promise.withResolvers<void>();
  const run: Run = { caller, result: ended.promise, progress: NOTHING };
  const done = (): void => {
    run.progress = { ...run.progress, is_done: true };
  };
  // A failure is for the caller, if it still asks.
  run.result.then(done, done);
  const ranges = projects.map(({ id }) => ({ projectId: id, from, to: end }));
  runs.set(store, run);
  ended.resolve(recompute(store, ranges, asked.dry_run, run, clock));
  return run;
}

const NOTHING: Recomputation = {
  is_done: false,
  observations: 0,
  changed: 0,
  cost_before: 0,
  cost_after: 0,
};

type Range = Parameters<Store['costs']['priceAgain']>[0];

async function recompute(
  { costs }: Store,
  ranges: readonly Range[],
  isDryRun: boolean,
  run: Run,
  clock: Clock,
): Promise<void> {
  for (const range of ranges) {
    let place: PricedPlace | null = null;
    do {
      const step: PricedStep | null = await priceWithRetries(costs, clock, range, place, isDryRun);
      if (step === null) {
        throw new ControlError(
          'no_prices',
          'no running daemon has prices for the store: start one whose processor cost names this store',
        );
      }
      const { progress } = run;
      run.progress = {
        is_done: false,
        observations: progress.observations + step.observations,
        changed: progress.changed + step.changed,
        cost_before: progress.cost_before + step.costBefore,
        cost_after: progress.cost_after + step.costAfter,
      };
      place = step.next;
      await pause(clock, PAUSE_MS);
    } while (place !== null);
  }
}
