import type { ComponentChildren, JSX } from 'preact';

type Props = { readonly title: string; readonly children?: ComponentChildren };

/** The empty state of a list: the title says what is missing, the text what to do. */
export function Empty({ title, children }: Props): JSX.Element {
  return (
    <div class="empty">
      <h2>{title}</h2>
      {children}
    </div>
  );
}
