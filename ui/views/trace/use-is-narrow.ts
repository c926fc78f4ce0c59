import { useEffect, useState } from 'preact/hooks';

/** Below this width the panel of an observation covers the tree. trace.css has the same number. */
const NARROW = matchMedia('(max-width: 1000px)');

export function useIsNarrow(): boolean {
  const [isNarrow, setNarrow] = useState(NARROW.matches);
  useEffect(() => {
    const change = (): void => setNarrow(NARROW.matches);
    NARROW.addEventListener('change', change);
    return () => NARROW.removeEventListener('change', change);
  }, []);
  return isNarrow;
}
