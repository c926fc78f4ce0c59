/** Milliseconds by which the clock of the daemon is ahead of that of the browser. */
let ahead = 0;

/**
 * The time of the daemon, milliseconds since 1970. Times of traces, keys and limits come from machines whose clocks are right; a browser
 * whose clock is hours off would ask for a range without traces, and show ages that are wrong.
 */
export function daemonNow(): number {
  return Date.now() + ahead;
}

/** The clock of the browser around an answer; milliseconds since 1970. */
type Around = { readonly sent: number; readonly received: number };

/** Takes the time of an answer from its `Date` header. */
export function noteDate(date: string | null, around: Around): void {
  ahead = aheadBy(ahead, date, around);
}

/** The header has whole seconds, and may be a second old. A smaller difference of clocks matters to no person. */
const TOLERANCE_MS = 2_000;

/**
 * How far the daemon is ahead after an answer. The daemon wrote the header at a moment between the request and the answer. A known difference
 * stays as long as it agrees with that, so times do not waver with the network.
 */
export function aheadBy(known: number, date: string | null, { sent, received }: Around): number {
  const at = Date.parse(date ?? '');
  if (Number.isNaN(at)) return known;
  const [least, most] = [at - received, at - sent];
  if (known >= least - TOLERANCE_MS && known <= most + TOLERANCE_MS) return known;
  return (least + most) / 2;
}
