import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiFailure } from '../api/client.ts';
import { useResource } from './resource.ts';

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
  readonly isLoading: boolean;
  /** The pages are those of the former key. */
  readonly isStale: boolean;
  readonly searchedTo: string | undefined;
  readonly hasMore: boolean;
  more(): void;
  reload(): void;
  /** Repeats what failed: the first page, or the last one that was asked for. */
  retry(): void;
};

/** Reads a list page by page, and from its beginning when `key` changes. A key of undefined reads nothing. */
export function usePages<T extends Page>(
  key: string | undefined,
  load: (cursor: string | undefined, signal: AbortSignal) => Promise<T>,
): Pages<T> {
  // Later pages have the request of the first one: its range of time, which begins a while before now, is a part of its cursor.
  const first = useResource(key, async (signal) => ({ page: await load(undefined, signal), load }));
  const [later, setLater] = useState<Later<T>>({ pages: [] });
  const inFlight = useRef<AbortController | undefined>(undefined);
  useEffect(() => {
    setLater({ pages: [] });
    return () => {
      inFlight.current?.abort();
      inFlight.current = undefined;
    };
  }, [first.data]);

  const pages = first.data && [first.data.page, ...later.pages];
  const last = pages?.at(-1);
  const more = async (): Promise<void> => {
    const cursor = last?.next_cursor;
    if (first.data === undefined || typeof cursor !== 'string') return;
    if (inFlight.current !== undefined) return;
    const cancel = new AbortController();
    inFlight.current = cancel;
    setLater({ pages: later.pages, isLoading: true });
    const after = await first.data.load(cursor, cancel.signal).then(
      (page): Later<T> => ({ pages: [...later.pages, page] }),
      (error: unknown): Later<T> => ({ pages: later.pages, failure: ApiFailure.of(error) }),
    );
    if (cancel.signal.aborted) return;
    inFlight.current = undefined;
    setLater(after);
  };
  return {
    pages,
    failure: first.failure ?? later.failure,
    isLoading: first.isLoading || later.isLoading === true,
    isStale: first.isStale,
    searchedTo: last?.partial === true ? (last.searched_to ?? undefined) : undefined,
    hasMore: typeof last?.next_cursor === 'string',
    more: () => void more(),
    reload: first.reload,
    retry: first.failure === undefined ? () => void more() : first.reload,
  };
}

type Later<T> = {
  /** The pages behind the first one. */
  readonly pages: readonly T[];
  readonly failure?: ApiFailure;
  readonly isLoading?: boolean;
};
