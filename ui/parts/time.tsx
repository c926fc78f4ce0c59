import { signal } from '@preact/signals';
import type { JSX } from 'preact';
import { daemonNow } from '../api/clock.ts';
import { exact, relative } from './format.ts';

const REFRESH_MS = 10_000;
const refreshes = signal(0);
setInterval(() => {
  refreshes.value += 1;
}, REFRESH_MS);

/** A time relative to now; the exact one shows on hover. */
export function Time({ at }: { readonly at: string | null | undefined }): JSX.Element {
  // A component that reads a signal renders again when it changes.
  void refreshes.value;
  if (at === null || at === undefined) return <span class="muted">–</span>;
  return (
    <time dateTime={at} title={exact(at)}>
      {relative(at, daemonNow())}
    </time>
  );
}
