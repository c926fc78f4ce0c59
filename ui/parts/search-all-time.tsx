import type { JSX } from 'preact';
import { setQuery } from '../state/router.ts';

/** Leaves the range of the address. */
export function SearchAllTime(): JSX.Element {
  return (
    <button
      type="button"
      onClick={() => setQuery({ range: 'all', from: undefined, to: undefined })}
    >
      Search all time
    </button>
  );
}
