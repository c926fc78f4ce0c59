/** The keys that go on and back among items in a row or a column. */
export type ArrowKeys = { readonly next: string; readonly previous: string };

export const COLUMN: ArrowKeys = { next: 'ArrowDown', previous: 'ArrowUp' };
export const ROW: ArrowKeys = { next: 'ArrowRight', previous: 'ArrowLeft' };

/** The index that a key moves to, around the ends; undefined for another key. */
export function indexAfter(
  key: string,
  { next, previous }: ArrowKeys,
  index: number,
  count: number,
): number | undefined {
  if (key === next) return (index + 1) % count;
  if (key === previous) return (index + count - 1) % count;
  if (key === 'Home') return 0;
  if (key === 'End') return count - 1;
  return undefined;
}
