type BackoffOptions = {
  /** Milliseconds before the first retry. */
  readonly first: number;
  /** Milliseconds that no wait exceeds, before jitter. */
  readonly max: number;
  /** How many times longer each further wait is. Default: 2. */
  readonly factor?: number;
  /**
   * Shares of the full wait between which the actual wait is random, so that deliveries that failed together are
   * not retried together. Default: the full wait.
   */
  readonly jitter?: readonly [least: number, most: number];
  /** From 0 to 1. */
  readonly random?: () => number;
};

/** Milliseconds to wait after this many earlier failures in a row; 0 gives the first wait. */
export type Backoff = (failures: number) => number;

/** Keeps the power finite. */
const MAX_EXPONENT = 100;

/** Exponential backoff. */
export function backoff({
  first,
  max,
  factor = 2,
  jitter: [least, most] = [1, 1],
  random = Math.random,
}: BackoffOptions): Backoff {
  return (failures) => {
    const full = Math.min(max, first * factor ** Math.min(failures, MAX_EXPONENT));
    return Math.round(full * (least + (most - least) * random()));
  };
}
