import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { ApiFailure } from '../../api/client.ts';
import { daemonNow } from '../../api/clock.ts';
import { readTraces } from '../../api/reading.ts';
import { followTraces } from '../../api/trace-stream.ts';
import type { Trace } from '../../api/types.ts';
import type { Pages } from '../../state/pages.ts';
import { usePages } from '../../state/pages.ts';
import type { Range } from '../../state/range.ts';
import { isReversed, rangeKey } from '../../state/range.ts';
import { hasTermOn, mistakeOf } from '../../state/terms.ts';
import { useIsVisible } from '../../state/visible.ts';
import type { Change, Changes } from './list.ts';
import { gathered, goesOn, joined, NO_CHANGES, withChanged, withoutOlder } from './list.ts';

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
  /** Milliseconds after a failure when it is read again on its own; undefined if it is not. */
  readonly again: number | undefined;
  /** The list is live, but no change reaches it at this moment. */
  readonly isBroken: boolean;
};

const PAGE = 50;

/**
 * The list of a query, page by page; nothing for a query with a mistake, or a reversed range. With `isLive`, traces that are new or change
 * come in while the page is visible: a browser opens only a few connections to a host, and the daemon a few streams.
 */
export function useTraces(asked: Asked, isLive: boolean): TraceList {
  const { project, query, range, sort, order } = asked;
  const isValid = mistakeOf(query) === undefined && !isReversed(range, daemonNow());
  const key = isValid ? keyOf(asked) : undefined;
  const { pages, ...list } = usePages(
    key,
    async (cursor, signal) => {
      const { from, to } = range;
      const since = lastChange;
      const asked = { q: query, from, to, sort, order, limit: PAGE, cursor };
      return { ...(await readTraces(project, asked, signal)), since };
    },
    { goesOn: ({ traces }) => goesOn(traces.length, { isByTime: sort === 'start', limit: PAGE }) },
  );
  const [changes, setChanges] = useState<Changes>(NO_CHANGES);
  const [isBroken, setBroken] = useState(false);
  // The daemon refuses the stream of a list that it refused, too. A retry that succeeds opens the stream again.
  const isRefused = list.reloadFailure?.isFinal === true;
  const isFollowing = useIsVisible() && isLive && key !== undefined && !isRefused;
  const loaded = useMemo(
    () => pages?.reduce<readonly Trace[]>((all, page) => joined(all, page.traces), []),
    [pages?.[0], pages?.length],
  );
  // The first page has the changes from before it was asked for.
  const since = pages?.[0]?.since ?? 0;
  const failure = list.reloadFailure;
  const now = useRef({ loaded, since, isLoading: list.isLoading, failure });
  now.current = { loaded, since, isLoading: list.isLoading, failure };
  useEffect(() => {
    if (!isFollowing) return undefined;
    const put = (news: readonly Change[]): void => {
      const { loaded, since, isLoading } = now.current;
      const listed = new Set(loaded?.map(({ id }) => id));
      // A page that is on its way may have a trace that has left.
      const mayList = (id: string): boolean => isLoading || listed.has(id);
      setChanges(({ kept, lost }) => {
        const later = kept.filter(({ number }) => number > since);
        return gathered({ kept: later, lost }, news, mayList);
      });
    };
    const reload = (): void => {
      // It is read again on its own when the wait that the daemon asked for is over.
      if (now.current.failure?.isAsking !== true) list.reload();
    };
    return follow(project, query, { put, reload, setBroken });
  }, [key, isFollowing]);
  const changed = changes.kept.filter(({ number }) => number > since);
  const bounds = { from: range.from, hasMore: list.hasMore };
  const merged = loaded && withChanged(loaded, changed, bounds);
  useClock(isFollowing && range.from !== undefined);
  const traces = merged && isLive ? withoutOlder(merged, range.from) : merged;
  // The further pages are older than the rows that have left.
  const hasMore = list.hasMore && traces?.length === merged?.length;
  const hasMany = changed.length >= MANY_CHANGES || changes.lost > since;
  const mayAge = hasTermOn(query, 'state') && traces?.some(isRunning) === true;
  const wait = isFollowing ? whenAgain({ failure, hasMany, mayAge }) : undefined;
  useEffect(() => {
    if (wait === undefined || list.isLoading) return undefined;
    // A page that was hidden for a while has waited a part of it.
    const passed = failure === undefined ? 0 : performance.now() - failure.notedAt;
    const timer = setTimeout(list.reload, wait - passed);
    return () => clearTimeout(timer);
  }, [wait, list.isLoading]);
  return {
    ...list,
    traces,
    hasMore,
    again: failure === undefined ? undefined : wait,
    isBroken: isFollowing && isBroken,
  };
}

/**
 * Milliseconds between two readings of a live list that asks for a state and has traces that run: a trace without an event for a long
 * time has another state, and no write says so to the stream.
 */
const AGED_MS = 60_000;
/** Milliseconds until a live list with many changes is read again, and until a reading that failed is repeated. */
const MANY_MS = 500;
const RETRY_MS = 5_000;
/** Milliseconds until a trace that is older than the range leaves a live list. */
const CLOCK_MS = 10_000;

/** Renders again and again while `isOn`: the beginning of a range such as `Last hour` moves on. */
function useClock(isOn: boolean): void {
  const [, setTicks] = useState(0);
  useEffect(() => {
    if (!isOn) return undefined;
    const timer = setInterval(() => setTicks((before) => before + 1), CLOCK_MS);
    return () => clearInterval(timer);
  }, [isOn]);
}

type Reasons = {
  readonly failure: ApiFailure | undefined;
  readonly hasMany: boolean;
  readonly mayAge: boolean;
};

/** Milliseconds until a live list is read again; undefined if the stream suffices. */
function whenAgain({ failure, hasMany, mayAge }: Reasons): number | undefined {
  // Changes may be missing, and no later event brings them.
  if (failure !== undefined) return failure.waitOf(RETRY_MS);
  if (hasMany) return MANY_MS;
  return mayAge ? AGED_MS : undefined;
}

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
    // The list has a failure then, with a retry.
    onRefused: reload,
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
