import type { ComponentChildren, JSX } from 'preact';
import type { Parameters } from '../state/router.ts';
import { hrefOf, navigate } from '../state/router.ts';

type Props = {
  /** A path of the UI. */
  readonly to: string;
  readonly query?: Parameters;
  readonly children: ComponentChildren;
  readonly class?: string;
  readonly title?: string;
  readonly 'aria-current'?: 'page';
};

/** A link to a page. Clicks with a modifier key open a tab, as they do with every link. */
export function Link({ to, query = {}, children, ...rest }: Props): JSX.Element {
  const href = hrefOf(to, query);
  const open = (event: MouseEvent): void => {
    const isPlain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey;
    if (!isPlain || event.altKey || event.defaultPrevented) return;
    event.preventDefault();
    navigate(href);
  };
  return (
    <a {...rest} href={href} onClick={open}>
      {children}
    </a>
  );
}
