import { useEffect, useRef, useState } from 'preact/hooks';
import { at, get } from '../../api/client.ts';
import { followTraces } from '../../api/trace-stream.ts';
import type { Trace, Traces } from '../../api/types.ts';
import { useIsVisible } from '../../state/visible.ts';

/** Traces that arrive while the page is open, the newest first. */
export type Arrivals = {
  readonly traces: readonly Trace[];
  /** The daemon tells this page of new traces. */
  readonly isListening: boolean;
};

/** More traces than these are not listed: the list of traces has them. */
const MOST = 5;

/**
 * Follows the stream of traces while the page is visible, and reads then which traces arrived before. With `wasEmpty`, a trace that
 * arrived before the page opened counts too.
 */
export function useArrivals(projectId: string, wasEmpty: boolean): Arrivals {
  const [traces, setTraces] = useState<readonly Trace[]>([]);
  const [isListening, setListening] = useState(false);
  const isVisible = useIsVisible();
  /** The newest traces when the page opened; undefined until they are read. */
  const old = useRef<ReadonlySet<string> | undefined>(wasEmpty ? new Set() : undefined);

  const readNewest = async (signal: AbortSignal): Promise<readonly Trace[]> => {
    const query = { limit: MOST };
    return (await get<Traces>(at`/projects/${projectId}/traces`, { query, signal })).traces;
  };
  /** Settles when the first reading has ended. */
  const opened = useRef<Promise<void>>(undefined);
  useEffect(() => {
    if (old.current !== undefined) return undefined;
    // At once, also in a tab in the background: a trace that arrives before the stream opens is new.
    const cancel = new AbortController();
    const keep = (newest: readonly Trace[]): void => {
      old.current ??= idsOf(newest);
    };
    opened.current = readNewest(cancel.signal).then(keep, () => undefined);
    return () => cancel.abort();
  }, [projectId]);

  useEffect(() => {
    if (!isVisible) return undefined;
    const cancel = new AbortController();
    const add = (trace: Trace): void =>
      setTraces((before) => [trace, ...before.filter(({ id }) => id !== trace.id)].slice(0, MOST));
    const addMissed = async (): Promise<void> => {
      await opened.current;
      const newest = await readNewest(cancel.signal);
      const before = old.current;
      if (before === undefined) old.current = idsOf(newest);
      else for (const each of newest.toReversed()) if (!before.has(each.id)) add(each);
    };
    const end = followTraces(projectId, '', {
      onTrace: add,
      onOpen: () => {
        setListening(true);
        // The stream stays open without it, and the next trace shows.
        addMissed().catch(() => undefined);
      },
      onBroken: () => setListening(false),
    });
    return () => {
      cancel.abort();
      end();
      setListening(false);
    };
  }, [projectId, isVisible]);
  return { traces, isListening };
}

function idsOf(traces: readonly Trace[]): ReadonlySet<string> {
  return new Set(traces.map(({ id }) => id));
}
