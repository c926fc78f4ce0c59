import { useEffect } from 'preact/hooks';
import { isolated, nameText } from '../parts/text-pieces.ts';

/** Characters of a title: a tab shows fewer. */
const LENGTH = 200;

/** Sets the title of the window while a page shows. It may be a text of a client. */
export function useTitle(title: string): void {
  useEffect(() => {
    document.title = title === '' ? 'tracectl' : `${isolated(nameText(title, LENGTH))} · tracectl`;
  }, [title]);
}
