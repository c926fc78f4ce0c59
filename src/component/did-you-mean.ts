/**
 * The candidate nearest to `text` by edit distance (insertions, deletions, replacements, swaps of neighbours),
 * if it is near enough to be a typing error.
 */
export function nearest(text: string, candidates: Iterable<string>): string | undefined {
  let best: string | undefined;
  let bestDistance = Number.POSITIVE_INFINITY;
  for (const candidate of candidates) {
    const longer = Math.max(text.length, candidate.length);
    if (longer > MAX_LENGTH) continue;
    const distance = editDistance(text.toLowerCase(), candidate.toLowerCase());
    if (distance <= Math.max(1, Math.floor(longer / 3)) && distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best === text ? undefined : best;
}

/** `; did you mean "otlp"?`, or nothing. */
export function didYouMean(text: string, candidates: Iterable<string>): string {
  const meant = nearest(text, candidates);
  return meant === undefined ? '' : `; did you mean "${meant}"?`;
}

/** Comparing two names costs the product of their lengths, and longer names are no typing errors. */
const MAX_LENGTH = 100;

function editDistance(a: string, b: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let row = 1; row <= a.length; row++) {
    const current = [row];
    for (let column = 1; column <= b.length; column++) {
      const replaced = (last[column - 1] ?? 0) + (a[row - 1] === b[column - 1] ? 0 : 1);
      let cost = Math.min(replaced, (last[column] ?? 0) + 1, (current[column - 1] ?? 0) + 1);
      const isSwap = a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1];
      if (row > 1 && column > 1 && isSwap) cost = Math.min(cost, (beforeLast[column - 2] ?? 0) + 1);
      current.push(cost);
    }
    beforeLast = last;
    last = current;
  }
  return last[b.length] ?? 0;
}
