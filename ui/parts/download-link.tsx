import type { ComponentChildren, JSX } from 'preact';
import { download } from '../state/download.ts';

type Props = {
  readonly href: string;
  /** Of the file. */
  readonly name: string;
  readonly children: ComponentChildren;
  readonly class?: string;
};

/** A link to a file of the daemon. */
export function DownloadLink({ href, name, children, class: className }: Props): JSX.Element {
  const open = (event: MouseEvent): void => {
    event.preventDefault();
    void download(href, name);
  };
  return (
    <a class={className} href={href} download={name} onClick={open}>
      {children}
    </a>
  );
}
