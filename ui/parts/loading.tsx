import type { JSX } from 'preact';

/** The loading state of a page. The style shows it only after a moment, so quick answers do not flicker. */
export function Loading({ label = 'Loading' }: { readonly label?: string }): JSX.Element {
  return (
    <div class="loading" role="status">
      <span class="spinner" aria-hidden="true" /> {label}
    </div>
  );
}
