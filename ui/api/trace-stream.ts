import { ApiFailure, apiPath, at, get } from './client.ts';
import type { Project, Trace } from './types.ts';

type Follower = {
  readonly onTrace: (trace: Trace) => void;
  /** Traces that have changed and do not match the query, or were erased. */
  readonly onLeft?: (ids: readonly string[]) => void;
  /** Also when the stream opens again after a break. Changes before it are in no event. */
  readonly onOpen: () => void;
  readonly onBroken: () => void;
  /** The daemon left out changes, because they came faster than the page reads. */
  readonly onLagged?: () => void;
  /** The daemon refused the stream, and refuses the project as well. The stream is opened again until the page ends it. */
  readonly onRefused?: () => void;
};

/** Milliseconds until a stream that the daemon refused is opened again; doubled by each further refusal. */
const RETRY_MS = 3_000;
const LONGEST_RETRY_MS = 60_000;

/** Follows the traces of a project that are new or change, and match the query. Returns the function that ends it. */
export function followTraces(project: string, query: string, follower: Follower): () => void {
  const { onTrace, onLeft, onOpen, onBroken, onLagged, onRefused } = follower;
  let source: EventSource | undefined;
  let retry: ReturnType<typeof setTimeout> | undefined;
  let retryAfter = RETRY_MS;
  const cancel = new AbortController();
  /** An event source hides the status of a refusal. This answer says to the page if the session has ended, or the project is gone. */
  const whenRefused = async (): Promise<void> => {
    const { signal } = cancel;
    const failure = await get<Project>(at`/projects/${project}`, { signal }).then(
      () => undefined,
      (error: unknown) => ApiFailure.of(error),
    );
    if (signal.aborted) return;
    retry = setTimeout(open, retryAfter);
    retryAfter = Math.min(retryAfter * 2, LONGEST_RETRY_MS);
    if (failure?.isFinal === true) onRefused?.();
  };
  const open = (): void => {
    const asked = { q: query, left: onLeft !== undefined || undefined };
    const stream = new EventSource(apiPath(at`/projects/${project}/traces/stream`, asked));
    source = stream;
    stream.onopen = () => {
      retryAfter = RETRY_MS;
      onOpen();
    };
    stream.onerror = () => {
      onBroken();
      // The browser connects again after a broken connection, but not after a refusal.
      if (stream.readyState === EventSource.CLOSED) void whenRefused();
    };
    stream.addEventListener('trace', ({ data }: MessageEvent<string>) => onTrace(JSON.parse(data)));
    stream.addEventListener('left', ({ data }: MessageEvent<string>) =>
      onLeft?.((JSON.parse(data) as { readonly ids: readonly string[] }).ids),
    );
    if (onLagged !== undefined) stream.addEventListener('lagged', onLagged);
  };
  open();
  return () => {
    cancel.abort();
    clearTimeout(retry);
    source?.close();
  };
}
