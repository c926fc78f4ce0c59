import { useMatches } from '../../state/media.ts';

/** Below this width the panel of an observation covers the tree. trace.css has the same number. */
const NARROW = matchMedia('(max-width: 1000px)');

export function useIsNarrow(): boolean {
  return useMatches(NARROW);
}
