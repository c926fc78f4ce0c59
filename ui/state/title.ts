import { useEffect } from 'preact/hooks';

/** Sets the title of the window while a page shows. */
export function useTitle(title: string): void {
  useEffect(() => {
    document.title = title === '' ? 'tracectl' : `${title} · tracectl`;
  }, [title]);
}
