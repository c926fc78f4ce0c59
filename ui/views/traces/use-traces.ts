import { useEffect, useState } from 'preact/hooks';
import { apiPath, at } from '../../api/client.ts';
import { readTraces } from '../../api/reading.ts';
import type { Trace } from '../../api/types.ts';
import type { Pages } from '../../state/pages.ts';
import { usePages } from '../../state/pages.ts';
import type { Range } from '../../state/range.ts';
import { rangeKey } from '../../state/range.ts';
import { mistakeOf } from '../../state/terms.ts';
import { joined, withChanged } from './list.ts';

export type Asked = {
  readonly project: string;
  readonly query: string;
  readonly range: Range;
  readonly sort: string;
  readonly order: string;
};

export type TraceList = Omit<Pages<never>, 'pages'> & {
  /** Undefined until the first page is there. */
  readonly traces: readonly Trace[] | undefined;
};

const PAGE = 50;

/**
 * The list of a query, page by page; nothing for a query with a mistake. With `isLive`, traces that are new or change
 * come in.
 */
export function useTraces(asked: Asked, isLive: boolean): TraceList {
  const { project, query, range, sort, order } = asked;
  const key = mistakeOf(query) === undefined ? keyOf(asked) : undefined;
  const { pages, ...list } = usePages(key, (cursor, signal) => {
    const { from, to } = range;
    return readTraces(project, { q: query, from, to, sort, order, limit: PAGE, cursor }, signal);
  });
  const [changed, setChanged] = useState<readonly Trace[]>([]);
  const first = pages?.[0];
  useEffect(() => setChanged([]), [first]);
  useEffect(() => {
    if (!isLive || key === undefined) return undefined;
    const put = (traces: readonly Trace[]): void =>
      setChanged((before) => [...before, ...traces].slice(-MOST_CHANGED));
    return follow(asked, put, list.reload);
  }, [key, isLive]);
  const loaded = pages?.reduce<readonly Trace[]>((all, page) => joined(all, page.traces), []);
  return { ...list, traces: loaded && withChanged(loaded, changed) };
}

function keyOf({ project, query, range, sort, order }: Asked): string {
  return JSON.stringify([project, query, rangeKey(range), sort, order]);
}

/** Milliseconds between two changes of the list, so that a busy project does not redraw it all the time. */
const GATHER_MS = 500;
/** Traces that a live list takes in before the oldest of them leave it. */
const MOST_CHANGED = 1_000;

function follow(
  { project, query }: Asked,
  put: (changed: readonly Trace[]) => void,
  reload: () => void,
): () => void {
  let gathered: Trace[] = [];
  const source = new EventSource(apiPath(at`/projects/${project}/traces/stream`, { q: query }));
  source.addEventListener('trace', ({ data }: MessageEvent<string>) => {
    gathered.push(JSON.parse(data));
  });
  source.addEventListener('lagged', reload);
  const timer = setInterval(() => {
    if (gathered.length === 0) return;
    put(gathered);
    gathered = [];
  }, GATHER_MS);
  return () => {
    source.close();
    clearInterval(timer);
  };
}
