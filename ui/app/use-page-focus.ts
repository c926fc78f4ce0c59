import type { RefObject } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { entry, path } from '../state/router.ts';

/**
 * Gives the heading of a page the focus when another page opens: a screen reader reads it, and Tab goes on there. Without it the place of
 * all pages would have the focus, because the link that had it is gone. `isFirst` leaves out the page of the address that the browser
 * loaded.
 */
export function usePageFocus(place: RefObject<HTMLElement | null>, isFirst: boolean): void {
  const here = path.value;
  const former = useRef(isFirst ? entry.value : undefined);
  useLayoutEffect(() => {
    // A page that opens another one in its place keeps the entry.
    const isOpened = former.current !== entry.value;
    former.current = entry.value;
    const main = place.current;
    if (!isOpened || main === null) return undefined;
    const before = document.activeElement;
    const focus = (): void => {
      const heading = main.querySelector('h1');
      const { activeElement: now } = document;
      // A person may be faster than the data, and a list has the focus at the row that was opened from it.
      const isElsewhere = now !== before && now !== main && now !== document.body;
      if (isElsewhere || isInside(main, now)) observer.disconnect();
      else if (heading !== null) {
        observer.disconnect();
        heading.tabIndex = -1;
        heading.focus({ preventScroll: true });
      }
    };
    const observer = new MutationObserver(focus);
    observer.observe(main, { childList: true, subtree: true });
    focus();
    return () => observer.disconnect();
  }, [here]);
}

function isInside(main: HTMLElement, element: Element | null): boolean {
  return element !== main && main.contains(element);
}
