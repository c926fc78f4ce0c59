import type { ComponentChildren, JSX } from 'preact';
import { useTitle } from '../state/title.ts';

type Props = {
  readonly title: string;
  /** Beside the title: buttons, switches. */
  readonly children?: ComponentChildren;
  /** A line below the title. */
  readonly note?: ComponentChildren;
};

/** The heading of a page, which is the title of the window too. */
export function PageHead({ title, children, note }: Props): JSX.Element {
  useTitle(title);
  return (
    <div class="page-head">
      <div>
        <h1>{title}</h1>
        {note !== undefined && <p class="muted">{note}</p>}
      </div>
      {children !== undefined && <div class="actions">{children}</div>}
    </div>
  );
}
