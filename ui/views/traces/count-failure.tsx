import type { JSX } from 'preact';
import type { ApiFailure } from '../../api/client.ts';

type Props = { readonly failure: ApiFailure; readonly retry: () => void };

/** Counts beside a list that did not come. It is no alert: a daemon that is away fails a dozen of them, and the list says so. */
export function CountFailure({ failure, retry }: Props): JSX.Element {
  return (
    <>
      {failure.message}{' '}
      <button type="button" class="quiet count-again" onClick={retry}>
        Count again
      </button>
    </>
  );
}
