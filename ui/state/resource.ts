import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { ApiFailure } from '../api/client.ts';

/**
 * Data that a page loads. While newer data is in flight, `data` keeps the older, so the page does not jump. If the newer does
 * not come, data of a former key goes: it answers another question than the page asks.
 */
export type Resource<T> = {
  readonly data: T | undefined;
  /** The failure of the last attempt; undefined after a success. */
  readonly failure: ApiFailure | undefined;
  /** Milliseconds after the failure when it loads again on its own; undefined if it does not. */
  readonly again: number | undefined;
  readonly isLoading: boolean;
  /** The data is that of a former key. */
  readonly isStale: boolean;
  reload(): void;
};

/**
 * Loads data, and loads it again when `key` changes. A key of undefined loads nothing. A newer request cancels the
 * one in flight. With `every`, milliseconds, it loads again after each answer while the page is visible, later if the answer asks
 * for it, except after a failure that is final.
 */
export function useResource<T>(
  key: string | undefined,
  load: (signal: AbortSignal) => Promise<T>,
  { every, known }: Options<T> = {},
): Resource<T> {
  const [attempt, setAttempt] = useState(0);
  const [state, setState] = useState<Loaded<T>>(() => knownState(key, attempt, known));
  const loading = useRef({ load, known });
  loading.current = { load, known };
  const lastAttempt = useRef(attempt);

  useEffect(() => {
    if (key === undefined) return undefined;
    const isReload = lastAttempt.current !== attempt;
    lastAttempt.current = attempt;
    const before = isReload ? undefined : loading.current.known?.();
    if (before !== undefined) {
      setState({ key, attempt, data: before });
      return undefined;
    }
    const cancel = new AbortController();
    const { signal } = cancel;
    loading.current.load(signal).then(
      (data) => {
        if (!signal.aborted) setState({ key, attempt, data });
      },
      (error: unknown) => {
        if (signal.aborted) return;
        const failure = ApiFailure.of(error);
        setState((before) => ({
          ...{ key, attempt, failure },
          data: before.key === key ? before.data : undefined,
        }));
      },
    );
    return () => cancel.abort();
  }, [key, attempt]);

  const reload = useCallback(() => setAttempt((before) => before + 1), []);
  const isLoading = key !== undefined && (state.key !== key || state.attempt !== attempt);
  const { failure } = state;
  const isOver = every === undefined || failure?.isFinal === true;
  const wait = isOver ? undefined : (failure?.waitOf(every) ?? every);
  useEffect(() => {
    if (wait === undefined || isLoading) return undefined;
    const timer = setTimeout(() => whenVisible(reload), wait);
    return () => clearTimeout(timer);
  }, [wait, isLoading, state, reload]);
  const isStale = state.data !== undefined && state.key !== key;
  const again = failure === undefined ? undefined : wait;
  return { data: state.data, failure, again, isLoading, isStale, reload };
}

type Options<T> = {
  readonly every?: number | undefined;
  /** Data that is there without a request when `key` changes. */
  readonly known?: (() => T | undefined) | undefined;
};

function knownState<T>(
  key: string | undefined,
  attempt: number,
  known: Options<T>['known'],
): Loaded<T> {
  const data = key === undefined ? undefined : known?.();
  return data === undefined ? { key: undefined } : { key, attempt, data };
}

type Loaded<T> = {
  readonly key: string | undefined;
  readonly attempt?: number;
  readonly data?: T | undefined;
  readonly failure?: ApiFailure | undefined;
};

/** Calls back now, or as soon as the page is visible: a page in the background asks for nothing. */
function whenVisible(call: () => void): void {
  if (document.visibilityState === 'visible') {
    call();
    return;
  }
  const check = (): void => {
    if (document.visibilityState !== 'visible') return;
    document.removeEventListener('visibilitychange', check);
    call();
  };
  document.addEventListener('visibilitychange', check);
}
