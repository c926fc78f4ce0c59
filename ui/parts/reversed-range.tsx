import type { JSX } from 'preact';
import { setQuery } from '../state/router.ts';
import { Empty } from './empty.tsx';

/** In the place of a page whose address has a range that ends before it begins. */
export function ReversedRange(): JSX.Element {
  return (
    <Empty title="The range ends before it begins">
      <p role="alert">
        In the address, the time of <code>from</code> must be before that of <code>to</code>, and
        before now.{' '}
        <button
          type="button"
          onClick={() => setQuery({ range: 'all', from: undefined, to: undefined })}
        >
          Search all time
        </button>
      </p>
    </Empty>
  );
}
