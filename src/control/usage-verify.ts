import { z } from 'zod';
import type { Clock } from '../component/component.ts';
import type { Store } from '../store/store.ts';
import { readArguments } from './protocol.ts';
import type { StoreWork } from './store-work.ts';

/** A difference between the ledger and a sum of it. */
export type UsageDifference = {
  readonly what: string;
  readonly expected: number;
  readonly found: number;
};

/** The result of a verification, or the number of rows that it has read so far. */
export type Verification =
  | { readonly differences: readonly UsageDifference[] }
  | { readonly rows: number };

const verifyArguments = z.strictObject({
  /** The caller's name for its verification, the same in each of its requests. */
  run: z.string().min(1).max(100).optional(),
  /** Longest wait for the result. Without it the answer is the result. */
  wait_ms: z.int().min(0).max(30_000).optional(),
});

/** A verification that goes on between the requests of its callers. */
type Run = {
  readonly callers: Set<string>;
  readonly result: Promise<readonly UsageDifference[]>;
  rows: number;
  isOver: boolean;
};

const runs = new WeakMap<Store, Run>();

/**
 * Verifies the usage of a store, which may take minutes. A caller with a `run` and a `wait_ms` repeats the request until
 * it has the result. One verification of a store runs at a time: other callers join it.
 */
export async function verifyUsage(
  { store, clock }: Pick<StoreWork, 'store' | 'clock'>,
  args: unknown,
): Promise<Verification> {
  const { run: caller = '', wait_ms: wait } = readArguments(verifyArguments, args);
  const run = runOf(store, caller);
  run.callers.add(caller);
  if (wait !== undefined && !(await endsWithin(run, wait, clock))) return { rows: run.rows };
  return { differences: await run.result };
}

/** The verification in progress, or the finished one that the caller has taken part in, or a new one. */
function runOf(store: Store, caller: string): Run {
  const known = runs.get(store);
  if (known !== undefined && (!known.isOver || (caller !== '' && known.callers.has(caller)))) {
    return known;
  }
  const result = Promise.withResolvers<readonly UsageDifference[]>();
  const run: Run = { callers: new Set(), result: result.promise, rows: 0, isOver: false };
  const end = (): void => {
    run.isOver = true;
  };
  // A failure is for the callers, if any still asks.
  run.result.then(end, end);
  result.resolve(
    store.usage.verify((rows) => {
      run.rows = rows;
    }),
  );
  runs.set(store, run);
  return run;
}

/** Whether the result is there within so many milliseconds. */
export async function endsWithin(
  { result }: { readonly result: Promise<unknown> },
  ms: number,
  clock: Clock,
): Promise<boolean> {
  const waited = Promise.withResolvers<boolean>();
  const cancel = clock.after(ms, () => waited.resolve(false));
  try {
    return await Promise.race([result.then(() => true), waited.promise]);
  } finally {
    cancel();
  }
}
