import { useLayoutEffect } from 'preact/hooks';
import { takeScroll } from './kept.ts';
import { entry } from './router.ts';

/** After Back and Forward, puts the page where it was as soon as its content is there. */
export function useScroll(isThere: boolean): void {
  const here = entry.value;
  useLayoutEffect(() => {
    const top = isThere ? takeScroll(here) : undefined;
    if (top !== undefined) window.scrollTo(0, top);
  }, [here, isThere]);
}
