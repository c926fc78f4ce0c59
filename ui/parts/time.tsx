import { signal } from '@preact/signals';
import type { JSX } from 'preact';
import { exact, relative } from './format.ts';

const REFRESH_MS = 10_000;
const now = signal(Date.now());
setInterval(() => {
  now.value = Date.now();
}, REFRESH_MS);

/** A time relative to now; the exact one shows on hover. */
export function Time({ at }: { readonly at: string | null | undefined }): JSX.Element {
  if (at === null || at === undefined) return <span class="muted">–</span>;
  return (
    <time dateTime={at} title={exact(at)}>
      {relative(at, Math.max(now.value, Date.now()))}
    </time>
  );
}
