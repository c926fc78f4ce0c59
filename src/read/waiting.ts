import type { Clock } from '../component/component.ts';
import { Refusal } from '../model/errors.ts';
import type { Store } from '../store/store.ts';
import type { Read } from './reads.ts';

/** The limits of requests that wait, from `service.limits`. */
export type WaitLimits = {
  /** Milliseconds that a request may ask for. */
  readonly wait_timeout: number;
  /** Requests that wait for a trace at once, of a key and of all. */
  readonly waits_per_key: number;
  readonly waits: number;
};

/** A bound on the requests of one key or project, and on all. */
export type KeyPlaces = {
  /** Throws a `Refusal`: 429 for the bound of an owner, 503 for that of all. Returns the function that gives the place back. */
  take(owner: string): () => void;
  readonly taken: number;
};

export type PlaceBounds = {
  /** The name of the requests, for the refusal. */
  readonly what: string;
  readonly owner: 'key' | 'project';
  /** Places of one owner, and of all. */
  readonly each: number;
  readonly all: number;
};

export function boundedPlaces({ what, owner, each, all }: PlaceBounds): KeyPlaces {
  const taking = new Map<string, number>();
  let taken = 0;
  return {
    get taken() {
      return taken;
    },
    take(name) {
      const own = taking.get(name) ?? 0;
      const retry = { retryAfterMs: 1_000 };
      if (own >= each) {
        throw new Refusal('rate_limited', `This ${owner} has ${each} ${what}. Try again.`, retry);
      }
      if (taken >= all) {
        throw new Refusal('unavailable', `There are ${all} ${what}. Try again.`, retry);
      }
      taking.set(name, own + 1);
      taken++;
      let isTaken = true;
      return () => {
        if (!isTaken) return;
        isTaken = false;
        taken--;
        const left = (taking.get(name) ?? 1) - 1;
        if (left > 0) taking.set(name, left);
        else taking.delete(name);
      };
    },
  };
}

/** The pauses between looks, in milliseconds: the first one, and the longest one. */
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 250;

export type TraceWait = {
  readonly store: Pick<Store, 'traces' | 'backlog'>;
  readonly projectId: string;
  readonly traceId: string;
  /** Milliseconds. */
  readonly ms: number;
  readonly read: Pick<Read, 'signal' | 'turn'>;
  readonly clock: Clock;
};

/**
 * Resolves when the trace is there and every entry that waited for the store when the request came is processed, or after the
 * time. Rejects with the signal's reason if the client goes away. It holds no turn while it pauses.
 */
export async function waitForTrace(wait: TraceWait): Promise<void> {
  const { store, projectId, traceId, read, clock } = wait;
  const end = clock.now() + wait.ms;
  let mark = await read.turn(() => store.backlog.newest(projectId));
  let pauseMs = FIRST_PAUSE_MS;
  while (true) {
    if (mark === null) {
      const trace = await read.turn(() => store.traces.getTrace(projectId, traceId));
      if (trace !== undefined) return;
    }
    const left = end - clock.now();
    if (left <= 0) return;
    await pause(clock, Math.min(pauseMs, left), read.signal);
    pauseMs = Math.min(pauseMs * 1.5, LONGEST_PAUSE_MS);
    const upTo = mark;
    if (upTo !== null) mark = await read.turn(() => store.backlog.newest(projectId, upTo));
  }
}

function pause(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const abort = (): void => {
    cancel();
    reject(signal.reason);
  };
  const cancel = clock.after(ms, () => {
    signal.removeEventListener('abort', abort);
    resolve();
  });
  signal.addEventListener('abort', abort, { once: true });
  return promise;
}
