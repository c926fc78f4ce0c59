import type { Clock } from '../component/component.ts';
import type { Store } from '../store/store.ts';
import type { Read } from './reads.ts';

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
  let end = clock.now() + wait.ms;
  let mark = await read.turn(() => store.backlog.newest(projectId));
  let pauseMs = FIRST_PAUSE_MS;
  while (true) {
    if (mark === null) {
      const trace = await read.turn(() => store.traces.getTrace(projectId, traceId));
      if (trace !== undefined) return;
    }
    const now = clock.now();
    // A clock that is set back makes the wait begin again, and not longer.
    end = Math.min(end, now + wait.ms);
    const left = end - now;
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
