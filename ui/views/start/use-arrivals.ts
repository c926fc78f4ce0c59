import { useEffect, useState } from 'preact/hooks';
import { apiPath, at, get } from '../../api/client.ts';
import type { Trace, Traces } from '../../api/types.ts';

/** Traces that arrive while the page is open, the newest first. */
export type Arrivals = {
  readonly traces: readonly Trace[];
  /** The daemon tells this page of new traces. */
  readonly isListening: boolean;
};

/** More traces than these are not listed: the list of traces has them. */
const MOST = 5;
/** Milliseconds until a stream that the daemon refused is opened again. */
const RETRY_MS = 3_000;

/** Follows the stream of traces. With `wasEmpty`, a trace that arrived before the stream opened counts too. */
export function useArrivals(projectId: string, wasEmpty: boolean): Arrivals {
  const [traces, setTraces] = useState<readonly Trace[]>([]);
  const [isListening, setListening] = useState(false);

  useEffect(() => {
    let source: EventSource | undefined;
    let retry: ReturnType<typeof setTimeout> | undefined;
    const cancel = new AbortController();
    const add = (trace: Trace): void =>
      setTraces((before) => [trace, ...before.filter(({ id }) => id !== trace.id)].slice(0, MOST));
    const readNewest = async (): Promise<void> => {
      const query = { limit: 1 };
      const { signal } = cancel;
      const newest = await get<Traces>(at`/projects/${projectId}/traces`, { query, signal });
      for (const trace of newest.traces) add(trace);
    };
    const open = (): void => {
      const stream = new EventSource(apiPath(at`/projects/${projectId}/traces/stream`));
      source = stream;
      stream.onopen = () => {
        setListening(true);
        // The stream stays open without it, and the next trace shows.
        if (wasEmpty) readNewest().catch(() => undefined);
      };
      stream.onerror = () => {
        setListening(false);
        // The browser connects again after a broken connection, but not after a refusal.
        if (stream.readyState === EventSource.CLOSED) retry = setTimeout(open, RETRY_MS);
      };
      stream.addEventListener('trace', ({ data }: MessageEvent<string>) => add(JSON.parse(data)));
    };
    open();
    return () => {
      cancel.abort();
      clearTimeout(retry);
      source?.close();
    };
  }, [projectId, wasEmpty]);
  return { traces, isListening };
}
