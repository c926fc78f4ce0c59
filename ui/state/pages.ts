import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiFailure } from '../api/client.ts';
import { keep, keptValue } from './kept.ts';
import { useResource } from './resource.ts';
import { entry, isRevisited } from './router.ts';
import { useScroll } from './scroll.ts';

/** A page of a list, as the reading requests answer it. */
type Page = {
  readonly next_cursor: string | null;
  /** The search ended early: everything down to `searched_to` was looked at. */
  readonly partial?: boolean;
  readonly searched_to?: string | null;
};

export type Pages<T> = {
  /** Undefined until the first page is there. */
  readonly pages: readonly T[] | undefined;
  readonly failure: ApiFailure | undefined;
  /** The failure of the last reading from the beginning. */
  readonly reloadFailure: ApiFailure | undefined;
  readonly isLoading: boolean;
  /** The pages are those of the former key. */
  readonly isStale: boolean;
  readonly searchedTo: string | undefined;
  /** The search ended early, and goes on when a person asks for the next page. */
  readonly isPaused: boolean;
  readonly hasMore: boolean;
  more(): void;
  reload(): void;
  /** Repeats what failed: the first page, or the last one that was asked for. */
  retry(): void;
};

/** The pages that were read together; further ones have the request of the first one. */
type Batch<T> = { readonly pages: readonly T[]; readonly load: Load<T> };
type Load<T> = (cursor: string | undefined, signal: AbortSignal) => Promise<T>;

type Options<T> = {
  /** Whether a page that ended early found enough for the next one to follow it without a person. */
  readonly goesOn?: (page: T) => boolean;
};

/**
 * Reads a list page by page, and from its beginning when `key` changes. A key of undefined reads nothing. A reload reads as many
 * pages again as there are. Back and Forward show the pages that the entry of the history had.
 */
export function usePages<T extends Page>(
  key: string | undefined,
  load: Load<T>,
  { goesOn }: Options<T> = {},
): Pages<T> {
  const here = entry.value;
  const name = `pages ${key}`;
  const shown = useRef<{ readonly key: string | undefined; readonly count: number }>(undefined);
  const first = useResource<Batch<T>>(
    key,
    async (signal) => {
      const { key: of, count } = shown.current ?? { key: undefined, count: 1 };
      // The range of time of the first page, which begins a while before now, is a part of its cursor.
      return { pages: await readPages(load, of === key ? count : 1, signal), load };
    },
    { known: () => (isRevisited.value ? keptValue<Batch<T>>(here, name) : undefined) },
  );
  const [state, setLater] = useState<Later<T>>({ of: undefined, pages: [] });
  const later: Later<T> = state.of === first.data ? state : { of: first.data, pages: [] };
  const inFlight = useRef<AbortController | undefined>(undefined);
  useEffect(
    () => () => {
      inFlight.current?.abort();
      inFlight.current = undefined;
    },
    [first.data],
  );

  const pages = first.data && [...first.data.pages, ...later.pages];
  if (!first.isStale) shown.current = pages && { key, count: pages.length };
  useEffect(() => {
    if (first.data === undefined || first.isStale) return;
    keep(here, name, { pages: [...first.data.pages, ...later.pages], load: first.data.load });
  }, [here, name, first.data, first.isStale, later.pages.length]);
  useScroll(pages !== undefined && !first.isStale);

  const last = pages?.at(-1);
  const more = async (): Promise<void> => {
    const cursor = last?.next_cursor;
    if (first.data === undefined || typeof cursor !== 'string') return;
    if (inFlight.current !== undefined) return;
    const cancel = new AbortController();
    inFlight.current = cancel;
    const before = { of: first.data, pages: later.pages };
    setLater({ ...before, isLoading: true });
    const after = await first.data.load(cursor, cancel.signal).then(
      (page): Later<T> => ({ ...before, pages: [...later.pages, page] }),
      (error: unknown): Later<T> => ({ ...before, failure: ApiFailure.of(error) }),
    );
    if (cancel.signal.aborted) return;
    inFlight.current = undefined;
    setLater(after);
  };
  return {
    pages,
    failure: first.failure ?? later.failure,
    reloadFailure: first.failure,
    isLoading: first.isLoading || later.isLoading === true,
    isStale: first.isStale,
    searchedTo: last?.partial === true ? (last.searched_to ?? undefined) : undefined,
    isPaused: last?.partial === true && goesOn?.(last) !== true,
    hasMore: typeof last?.next_cursor === 'string',
    more: () => void more(),
    reload: first.reload,
    retry: first.failure === undefined ? () => void more() : first.reload,
  };
}

/** Reads `count` pages; fewer if the list ends before. */
async function readPages<T extends Page>(
  load: Load<T>,
  count: number,
  signal: AbortSignal,
): Promise<readonly T[]> {
  const pages = [await load(undefined, signal)];
  while (pages.length < count) {
    const cursor = pages.at(-1)?.next_cursor;
    if (typeof cursor !== 'string') break;
    pages.push(await load(cursor, signal));
  }
  return pages;
}

type Later<T> = {
  /** The pages that they follow. */
  readonly of: Batch<T> | undefined;
  readonly pages: readonly T[];
  readonly failure?: ApiFailure;
  readonly isLoading?: boolean;
};
