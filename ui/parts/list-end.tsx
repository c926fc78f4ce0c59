import './list-end.css';
import type { JSX } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import type { Pages } from '../state/pages.ts';
import { Time } from './time.tsx';

type Props = {
  readonly list: Pick<
    Pages<unknown>,
    'hasMore' | 'isLoading' | 'failure' | 'searchedTo' | 'isPaused' | 'more'
  >;
  /** The end of the list: `No further traces`. */
  readonly end: string;
};

/** Below the rows of a list: reads the next page when it comes into view, and says how far a search went. */
export function ListEnd({ list, end }: Props): JSX.Element {
  const { hasMore, isLoading, failure, searchedTo, isPaused, more } = list;
  // After a failure, and after a search that found nothing in its time, a person asks for the next page.
  const isAutomatic = hasMore && !isLoading && failure === undefined && !isPaused;
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = place.current;
    if (element === null || !isAutomatic) return undefined;
    const observer = new IntersectionObserver((entries) => {
      if (entries.some((each) => each.isIntersecting)) more();
    });
    observer.observe(element);
    return () => observer.disconnect();
  });
  if (!hasMore) return <div class="list-end muted">{end}</div>;
  return (
    <div class="list-end" ref={place}>
      {searchedTo !== undefined && (
        <span>
          Searched back to <Time at={searchedTo} />
        </span>
      )}
      <button type="button" disabled={isLoading} onClick={more}>
        {isLoading ? 'Loading…' : isPaused ? 'Continue' : 'More'}
      </button>
    </div>
  );
}
