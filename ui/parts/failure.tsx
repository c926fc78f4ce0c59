import type { JSX } from 'preact';
import type { ApiFailure } from '../api/client.ts';

type Props = { readonly failure: ApiFailure; readonly retry?: (() => void) | undefined };

/** The error state of a page or a part: the message of the daemon, and a retry. */
export function Failure({ failure, retry }: Props): JSX.Element {
  return (
    <div class="failure" role="alert">
      <p>{failure.message}</p>
      {retry !== undefined && (
        <button type="button" onClick={() => retry()}>
          Retry
        </button>
      )}
    </div>
  );
}
