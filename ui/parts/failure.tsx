import type { JSX } from 'preact';
import type { ApiFailure } from '../api/client.ts';
import { Wait } from './wait.tsx';

type Props = {
  readonly failure: ApiFailure;
  readonly retry?: (() => void) | undefined;
  /** Milliseconds after the failure when the page tries again on its own; undefined if it does not. */
  readonly again?: number | undefined;
};

/** The error state of a page or a part: the message of the daemon, how long to wait, and a retry. */
export function Failure({ failure, retry, again }: Props): JSX.Element {
  return (
    <div class="failure" role="alert">
      <div>
        <p>{failure.message}</p>
        <Wait failure={failure} again={again} />
      </div>
      {retry !== undefined && (
        <button type="button" onClick={() => retry()}>
          Retry
        </button>
      )}
    </div>
  );
}
