/** The range of time of a list, as the address has it: `range=7d`, or `from` and `to`. */
export type Range = {
  /** ISO 8601; undefined without a bound. */
  readonly from: string | undefined;
  readonly to: string | undefined;
  /** `7d`, or `custom` with `from` and `to`. */
  readonly name: string;
  readonly label: string;
};

const HOUR = 3_600_000;
export const RANGES = [
  { name: '1h', label: 'Last hour', ms: HOUR },
  { name: '24h', label: 'Last 24 hours', ms: 24 * HOUR },
  { name: '7d', label: 'Last 7 days', ms: 7 * 24 * HOUR },
  { name: '30d', label: 'Last 30 days', ms: 30 * 24 * HOUR },
  { name: 'all', label: 'All time', ms: undefined },
] as const;
const USUAL = RANGES[2];

/** The range of an address. `now` is in milliseconds. */
export function rangeOf(query: URLSearchParams, now: number): Range {
  const from = timeOf(query.get('from'));
  const to = timeOf(query.get('to'));
  if (from !== undefined || to !== undefined) {
    return { from, to, name: 'custom', label: labelOf(from, to, now) };
  }
  const named = query.get('range');
  const { name, label, ms } = RANGES.find((each) => each.name === named) ?? USUAL;
  const start = ms === undefined ? undefined : new Date(now - ms).toISOString();
  return { from: start, to: undefined, name, label };
}

/** Whether a range ends before it begins, or has no length: an address that a person writes may have one. `now` is in milliseconds. */
export function isReversed({ from, to }: Pick<Range, 'from' | 'to'>, now: number): boolean {
  return from !== undefined && Date.parse(from) >= (to === undefined ? now : Date.parse(to));
}

/** A text that is equal for equal ranges: that of `7d` is the same a moment later. */
export function rangeKey({ name, from, to }: Range): string {
  return name === 'custom' ? JSON.stringify([from, to]) : name;
}

/** A time of day that names no zone is UTC, as every time of the pages; a browser would take its own zone. */
function timeOf(text: string | null): string | undefined {
  const isWithoutZone = /T[\d:.]+$/i.test(text ?? '');
  const at = Date.parse(isWithoutZone ? `${text}Z` : (text ?? ''));
  return Number.isNaN(at) ? undefined : new Date(at).toISOString();
}

function labelOf(from: string | undefined, to: string | undefined, now: number): string {
  const year = new Date(now).getUTCFullYear();
  const isThisYear = [from, to].every(
    (time) => time === undefined || new Date(time).getUTCFullYear() === year,
  );
  const short = (time: string): string => shortTime(time, isThisYear ? {} : { year: 'numeric' });
  if (from === undefined) return to === undefined ? 'All time' : `Until ${short(to)} UTC`;
  return `${to === undefined ? `Since ${short(from)}` : `${short(from)} – ${short(to)}`} UTC`;
}

/** `Nov 28, 09:00 AM`, in UTC, as the browser writes it. The page names the zone. */
export function shortTime(time: string, more: Intl.DateTimeFormatOptions = {}): string {
  const options = { month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit' } as const;
  return new Date(time).toLocaleString(undefined, { ...options, ...more, timeZone: 'UTC' });
}

/** The part of a range by which counts of whole hours may be longer before the page says so. */
const SMALL_PART = 0.05;

/** Whether counts that are of whole hours cover much more than a range. `now` is in milliseconds. */
export function isMuchLonger(
  counted: { readonly from: string; readonly to: string },
  { from, to }: Pick<Range, 'from' | 'to'>,
  now: number,
): boolean {
  if (from === undefined) return false;
  const end = to === undefined ? now : Date.parse(to);
  const before = Date.parse(from) - Date.parse(counted.from);
  const after = to === undefined ? 0 : Date.parse(counted.to) - end;
  return before + after > SMALL_PART * (end - Date.parse(from));
}

export type Step = '5m' | '1h' | '1d';
export const STEP_MS: Readonly<Record<Step, number>> = {
  '5m': 300_000,
  '1h': HOUR,
  '1d': 24 * HOUR,
};

/** Days of the histogram of a range without a beginning. */
const DAYS_OF_ALL = 90;
const MOST_DAYS = 366;

/** Beginning, end and step of a histogram. */
export type Bars = {
  readonly from: number;
  readonly to: number;
  readonly step: Step;
  /** The days that it has if those are only the newest ones of the range. */
  readonly days: number | undefined;
};

/** The histogram of a range: at most some 370 bars. */
export function barsOf({ from, to }: Pick<Range, 'from' | 'to'>, now: number): Bars {
  const end = to === undefined ? now : Date.parse(to);
  const most = (from === undefined ? DAYS_OF_ALL : MOST_DAYS) * 24 * HOUR;
  const length = from === undefined ? most : end - Date.parse(from);
  const step = length <= 6 * HOUR ? '5m' : length <= 8 * 24 * HOUR ? '1h' : '1d';
  const days = from === undefined || length > most ? most / (24 * HOUR) : undefined;
  return { from: floor(end - Math.min(length, most), step), to: end, step, days };
}

/** The range that is counted for the bars: the first one may begin before the range, by most of a day. */
export function countedIn({ from }: Pick<Range, 'from'>, bars: Bars): { from: string; to: string } {
  const isWhole = from !== undefined && bars.days === undefined;
  return {
    from: isWhole ? from : new Date(bars.from).toISOString(),
    to: new Date(bars.to).toISOString(),
  };
}

function floor(at: number, step: Step): number {
  return Math.floor(at / STEP_MS[step]) * STEP_MS[step];
}
