import { useEffect, useState } from 'preact/hooks';
import { ApiFailure, apiPath, at } from '../../api/client.ts';
import { readTraces } from '../../api/reading.ts';
import type { Trace, Traces } from '../../api/types.ts';
import { useResource } from '../../state/resource.ts';
import { mistakeOf } from '../../state/terms.ts';
import { joined, withChanged } from './list.ts';
import type { Range } from './range.ts';

export type Asked = {
  readonly project: string;
  readonly query: string;
  readonly range: Range;
  readonly sort: string;
  readonly order: string;
};

export type TraceList = {
  /** Undefined until the first page is there. */
  readonly traces: readonly Trace[] | undefined;
  readonly failure: ApiFailure | undefined;
  readonly isLoading: boolean;
  /** Set if the search ended early: every trace down to this time was looked at. */
  readonly searchedTo: string | undefined;
  readonly hasMore: boolean;
  more(): void;
  reload(): void;
};

const PAGE = 100;

/** The list of a query, page by page; nothing for a query with a mistake. With `isLive`, traces that are new or change come in. */
export function useTraces(asked: Asked, isLive: boolean): TraceList {
  const key = mistakeOf(asked.query) === undefined ? keyOf(asked) : undefined;
  const first = useResource(key, (signal) => readPage(asked, undefined, signal));
  const [later, setLater] = useState<Later>(NOTHING_LATER);
  useEffect(() => setLater(NOTHING_LATER), [first.data]);
  useEffect(() => {
    if (!isLive || key === undefined) return undefined;
    const put = (changed: readonly Trace[]): void =>
      setLater((before) => ({ ...before, changed: [...before.changed, ...changed] }));
    return follow(asked, put, first.reload);
  }, [key, isLive]);

  const last = later.page ?? first.data;
  const more = async (): Promise<void> => {
    if (last?.next_cursor === undefined || last.next_cursor === null || later.isLoading) return;
    setLater((before) => ({ ...before, isLoading: true, failure: undefined }));
    try {
      const page = await readPage(asked, last.next_cursor, AbortSignal.timeout(60_000));
      setLater((before) => ({
        ...before,
        isLoading: false,
        page,
        traces: joined(before.traces, page.traces),
      }));
    } catch (error) {
      const failure = ApiFailure.of(error);
      setLater((before) => ({ ...before, isLoading: false, failure }));
    }
  };

  const loaded = first.data && joined(first.data.traces, later.traces);
  return {
    traces: loaded && withChanged(loaded, later.changed),
    failure: first.failure ?? later.failure,
    isLoading: first.isLoading || later.isLoading,
    searchedTo: last?.partial === true ? (last.searched_to ?? undefined) : undefined,
    hasMore: typeof last?.next_cursor === 'string',
    more: () => void more(),
    reload: first.reload,
  };
}

type Later = {
  /** The page that was read last, and the traces of all pages behind the first one. */
  readonly page: Traces | undefined;
  readonly traces: readonly Trace[];
  readonly changed: readonly Trace[];
  readonly isLoading: boolean;
  readonly failure: ApiFailure | undefined;
};
const NOTHING_LATER: Later = {
  page: undefined,
  traces: [],
  changed: [],
  isLoading: false,
  failure: undefined,
};

function keyOf({ project, query, range, sort, order }: Asked): string {
  const { name, from, to } = range;
  return JSON.stringify([project, query, name === 'custom' ? [from, to] : name, sort, order]);
}

function readPage(
  { project, query, range, sort, order }: Asked,
  cursor: string | undefined,
  signal: AbortSignal,
): Promise<Traces> {
  const { from, to } = range;
  return readTraces(project, { q: query, from, to, sort, order, limit: PAGE, cursor }, signal);
}

/** Milliseconds between two changes of the list, so that a busy project does not redraw it all the time. */
const GATHER_MS = 500;

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
