/**
 * Spaces a log line that many clients can cause. The returned function gives the number of lines that were left out since the last one, or
 * undefined if less than `ms` has passed since: then the line is left out, too. A clock that goes back by more than that starts over.
 */
export function lineSpacing(clock: { now(): number }, ms: number): () => number | undefined {
  let writtenAt = Number.NEGATIVE_INFINITY;
  let leftOut = 0;
  return () => {
    const now = clock.now();
    if (Math.abs(now - writtenAt) < ms) {
      leftOut++;
      return undefined;
    }
    const suppressed = leftOut;
    writtenAt = now;
    leftOut = 0;
    return suppressed;
  };
}
