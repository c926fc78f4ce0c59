import type { JSX } from 'preact';
import { Empty } from './empty.tsx';
import { SearchAllTime } from './search-all-time.tsx';

/** In the place of a page whose address has a range that ends before it begins. */
export function ReversedRange(): JSX.Element {
  return (
    <Empty title="The range ends before it begins">
      <p role="alert">
        In the address, the time of <code>from</code> must be before that of <code>to</code>, and
        before now. <SearchAllTime />
      </p>
    </Empty>
  );
}
