import { useEffect, useState } from 'preact/hooks';
import { at, get } from '../../api/client.ts';
import { followTraces } from '../../api/trace-stream.ts';
import type { Trace, Traces } from '../../api/types.ts';

/** Traces that arrive while the page is open, the newest first. */
export type Arrivals = {
  readonly traces: readonly Trace[];
  /** The daemon tells this page of new traces. */
  readonly isListening: boolean;
};

/** More traces than these are not listed: the list of traces has them. */
const MOST = 5;

/** Follows the stream of traces. With `wasEmpty`, a trace that arrived before the stream opened counts too. */
export function useArrivals(projectId: string, wasEmpty: boolean): Arrivals {
  const [traces, setTraces] = useState<readonly Trace[]>([]);
  const [isListening, setListening] = useState(false);

  useEffect(() => {
    const cancel = new AbortController();
    const add = (trace: Trace): void =>
      setTraces((before) => [trace, ...before.filter(({ id }) => id !== trace.id)].slice(0, MOST));
    const readNewest = async (): Promise<void> => {
      const query = { limit: 1 };
      const { signal } = cancel;
      const newest = await get<Traces>(at`/projects/${projectId}/traces`, { query, signal });
      for (const trace of newest.traces) add(trace);
    };
    const end = followTraces(projectId, '', {
      onTrace: add,
      onOpen: () => {
        setListening(true);
        // The stream stays open without it, and the next trace shows.
        if (wasEmpty) readNewest().catch(() => undefined);
      },
      onBroken: () => setListening(false),
    });
    return () => {
      cancel.abort();
      end();
    };
  }, [projectId, wasEmpty]);
  return { traces, isListening };
}
