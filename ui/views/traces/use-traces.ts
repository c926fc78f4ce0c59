import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { readTraces } from '../../api/reading.ts';
import { followTraces } from '../../api/trace-stream.ts';
import type { Trace } from '../../api/types.ts';
import type { Pages } from '../../state/pages.ts';
import { usePages } from '../../state/pages.ts';
import type { Range } from '../../state/range.ts';
import { rangeKey } from '../../state/range.ts';
import { mistakeOf } from '../../state/terms.ts';
import { useIsVisible } from '../../state/visible.ts';
import type { Change } from './list.ts';
import { gathered, joined, withChanged } from './list.ts';

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
  /** The list is live, but no change reaches it at this moment. */
  readonly isBroken: boolean;
};

const PAGE = 50;

/**
 * The list of a query, page by page; nothing for a query with a mistake. With `isLive`, traces that are new or change
 * come in while the page is visible: a browser opens only a few connections to a host, and the daemon a few streams.
 */
export function useTraces(asked: Asked, isLive: boolean): TraceList {
  const { project, query, range, sort, order } = asked;
  const key = mistakeOf(query) === undefined ? keyOf(asked) : undefined;
  const { pages, ...list } = usePages(key, async (cursor, signal) => {
    const { from, to } = range;
    const since = lastChange;
    const asked = { q: query, from, to, sort, order, limit: PAGE, cursor };
    return { ...(await readTraces(project, asked, signal)), since };
  });
  const [changes, setChanges] = useState<readonly Change[]>([]);
  const [isBroken, setBroken] = useState(false);
  const isFollowing = useIsVisible() && isLive && key !== undefined;
  const loaded = useMemo(
    () => pages?.reduce<readonly Trace[]>((all, page) => joined(all, page.traces), []),
    [pages?.[0], pages?.length],
  );
  // The first page has the changes from before it was asked for.
  const since = pages?.[0]?.since ?? 0;
  const now = useRef({ loaded, since });
  now.current = { loaded, since };
  useEffect(() => {
    if (!isFollowing) return undefined;
    const put = (news: readonly Change[]): void => {
      const listed = new Set(now.current.loaded?.map(({ id }) => id));
      const isNew = ({ number }: Change): boolean => number > now.current.since;
      setChanges((before) => gathered(before.filter(isNew), news, listed));
    };
    return follow(project, query, { put, reload: list.reload, setBroken });
  }, [key, isFollowing]);
  const changed = changes.filter(({ number }) => number > since);
  const bounds = { from: range.from, hasMore: list.hasMore };
  const traces = loaded && withChanged(loaded, changed, bounds);
  const hasMany = isFollowing && changed.length >= MANY_CHANGES;
  useEffect(() => {
    if (hasMany) list.reload();
  }, [hasMany]);
  const mayAge = isFollowing && query !== '' && traces?.some(isRunning) === true;
  useEffect(() => {
    if (!mayAge || list.isLoading) return undefined;
    const timer = setTimeout(list.reload, AGED_MS);
    return () => clearTimeout(timer);
  }, [mayAge, list.isLoading]);
  return {
    ...list,
    traces,
    isBroken: isFollowing && isBroken,
  };
}

/**
 * Milliseconds between two readings of a live list with a query and traces that run: a trace without an event for a long time has
 * another state, and no write says so to the stream.
 */
const AGED_MS = 60_000;

function isRunning({ state }: Trace): boolean {
  return state === 'running';
}

function keyOf({ project, query, range, sort, order }: Asked): string {
  return JSON.stringify([project, query, rangeKey(range), sort, order]);
}

/** The number of the last change that a stream brought. It goes on when the list opens again: kept pages have numbers, too. */
let lastChange = 0;

/** Milliseconds between two changes of the list, so that a busy project does not redraw it all the time. */
const GATHER_MS = 500;
/** Changed traces beside the pages that a live list keeps; with so many, it is read again. */
const MANY_CHANGES = 1_000;

type Receiver = {
  readonly put: (changes: readonly Change[]) => void;
  readonly reload: () => void;
  readonly setBroken: (isBroken: boolean) => void;
};

function follow(project: string, query: string, { put, reload, setBroken }: Receiver): () => void {
  let waiting: Change[] = [];
  const add = (id: string, trace: Trace | undefined): void => {
    lastChange += 1;
    waiting.push({ number: lastChange, id, trace });
  };
  const end = followTraces(project, query, {
    onTrace: (trace) => add(trace.id, trace),
    onLeft: (ids) => {
      for (const id of ids) add(id, undefined);
    },
    // The list may be older than the stream.
    onOpen: () => {
      setBroken(false);
      reload();
    },
    onBroken: () => setBroken(true),
    onLagged: reload,
  });
  const timer = setInterval(() => {
    if (waiting.length === 0) return;
    put(waiting);
    waiting = [];
  }, GATHER_MS);
  return () => {
    end();
    clearInterval(timer);
  };
}
