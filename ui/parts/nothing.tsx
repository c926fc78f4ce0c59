import type { ComponentChildren, JSX } from 'preact';
import type { Range } from '../state/range.ts';
import { setQuery } from '../state/router.ts';
import { Empty } from './empty.tsx';
import { SearchAllTime } from './search-all-time.tsx';

type Props = {
  /** One of the rows that the list would have: `trace`. */
  readonly of: string;
  readonly range: Range;
  readonly isFiltered: boolean;
  /** How rows come to exist, for a list without a query. */
  readonly children: ComponentChildren;
};

/** The empty state of a list with a query and a range: either of them may leave everything out. */
export function Nothing({ of, range, isFiltered, children }: Props): JSX.Element {
  return (
    <Empty title={isFiltered ? `No ${of} matches` : `No ${of}s in this range`}>
      {range.name !== 'all' && (
        <p>
          The range is “{range.label}”. <SearchAllTime />
        </p>
      )}
      {isFiltered ? (
        <button type="button" onClick={() => setQuery({ q: undefined })}>
          Clear the search
        </button>
      ) : (
        children
      )}
    </Empty>
  );
}
