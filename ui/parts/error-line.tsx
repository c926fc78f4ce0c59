import type { JSX } from 'preact';
import type { TreeObservation } from '../api/types.ts';
import { beginning, visible } from './text-pieces.ts';

/** Characters of each part; the attributes of the observation have all of it. */
const MOST = 600;

type Props = {
  /** Undefined in the answer of a daemon of an earlier version. */
  readonly error: TreeObservation['error'] | undefined;
};

/** The error of an observation; nothing without one. */
export function ErrorLine({ error }: Props): JSX.Element | null {
  if (error === null || error === undefined) return null;
  return (
    <p class="bad user-text error-line">
      {[error.type, error.message]
        .filter((part) => part !== null)
        .map((part) => visible(beginning(part, MOST)))
        .join(': ')}
    </p>
  );
}
