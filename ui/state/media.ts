import { useEffect, useState } from 'preact/hooks';

/** Whether a media query matches, also after the window changes. */
export function useMatches(media: MediaQueryList): boolean {
  const [matches, setMatches] = useState(media.matches);
  useEffect(() => {
    const change = (): void => setMatches(media.matches);
    media.addEventListener('change', change);
    return () => media.removeEventListener('change', change);
  }, [media]);
  return matches;
}
