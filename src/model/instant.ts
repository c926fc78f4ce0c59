import type { Instant } from './observation.ts';

/**
 * Instants to the nanosecond. The grammar is the extended date and time of ISO 8601:
 * `YYYY-MM-DDThh:mm:ss`, a fraction of 1 to 30 digits behind `.` or `,`, then `Z`, `±hh:mm`, `±hh`, or
 * nothing, which is read as UTC. The calendar is checked; there is no second 60 and no hour 24. Digits
 * past the nanosecond are cut off. Reading takes time in proportion to what may be valid: the first
 * character out of place ends it.
 */

const YEAR_0000_MS = -62_167_219_200_000;
const YEAR_9999_END_MS = 253_402_300_799_999;
const MINUTE_MS = 60_000;
const MAX_FRACTION_DIGITS = 30;

/** Undefined where the text is no such date and time, or not within the years 0000 to 9999 in UTC. */
export function parseInstant(text: string): Instant | undefined {
  const days = parseDate(text);
  if (days === undefined || text[10] !== 'T' || text[13] !== ':' || text[16] !== ':')
    return undefined;
  const hour = digits(text, 11, 2);
  const minute = digits(text, 14, 2);
  const second = digits(text, 17, 2);
  if (!(hour <= 23 && minute <= 59 && second <= 59)) return undefined;
  let at = 19;
  let nanos = 0;
  if (text[at] === '.' || text[at] === ',') {
    const start = ++at;
    while (at - start <= MAX_FRACTION_DIGITS && isDigit(text, at)) at++;
    if (at === start || at - start > MAX_FRACTION_DIGITS) return undefined;
    nanos = Number(text.slice(start, Math.min(at, start + 9)).padEnd(9, '0'));
  }
  const offset = parseOffset(text, at);
  if (offset === undefined) return undefined;
  const seconds = (days * 24 + hour) * 3600 + minute * 60 + second;
  const ms = seconds * 1000 - offset * MINUTE_MS + Math.floor(nanos / 1_000_000);
  return withinYears(ms, nanos % 1_000_000);
}

/** Days since the epoch of the `YYYY-MM-DD` that the text starts with. */
function parseDate(text: string): number | undefined {
  if (text[4] !== '-' || text[7] !== '-') return undefined;
  const year = digits(text, 0, 4);
  const month = digits(text, 5, 2);
  const day = digits(text, 8, 2);
  if (!(year >= 0 && month >= 1 && month <= 12)) return undefined;
  if (!(day >= 1 && day <= daysIn(year, month))) return undefined;
  return (
    daysBefore(year) + (DAYS_BEFORE_MONTH[month - 1] ?? 0) + (month > 2 ? leap(year) : 0) + day - 1
  );
}

const DAYS_BEFORE_MONTH = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];

function daysIn(year: number, month: number): number {
  if (month === 2) return 28 + leap(year);
  return month === 4 || month === 6 || month === 9 || month === 11 ? 30 : 31;
}

function leap(year: number): 0 | 1 {
  return year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0) ? 1 : 0;
}

/** Days from the epoch to the first of January of a year. */
function daysBefore(year: number): number {
  const past = year - 1;
  const leapDays = Math.floor(past / 4) - Math.floor(past / 100) + Math.floor(past / 400);
  return year * 365 + leapDays - 719_527;
}

/** Minutes east of UTC of what the text ends with; undefined where that is no zone. */
function parseOffset(text: string, at: number): number | undefined {
  if (at === text.length) return 0;
  const sign = text[at];
  if (sign === 'Z') return at + 1 === text.length ? 0 : undefined;
  if (sign !== '+' && sign !== '-') return undefined;
  const hours = digits(text, at + 1, 2);
  const isLong = text.length === at + 6 && text[at + 3] === ':';
  const minutes = isLong ? digits(text, at + 4, 2) : 0;
  if (!isLong && text.length !== at + 3) return undefined;
  if (!(hours <= 23 && minutes <= 59)) return undefined;
  return (sign === '+' ? 1 : -1) * (hours * 60 + minutes);
}

/** The number that `count` ASCII digits make; NaN where one of them is none. */
function digits(text: string, start: number, count: number): number {
  let value = 0;
  for (let at = start; at < start + count; at++) {
    if (!isDigit(text, at)) return Number.NaN;
    value = value * 10 + text.charCodeAt(at) - 48;
  }
  return value;
}

function isDigit(text: string, at: number): boolean {
  const code = text.charCodeAt(at);
  return code >= 48 && code <= 57;
}

/**
 * Milliseconds since the epoch, as a JSON number's source text; a fraction is kept to the nanosecond.
 * Undefined where the instant is not within the years 0000 to 9999.
 */
export function instantFromEpochMs(text: string): Instant | undefined {
  const plain = /^(-?)(\d{1,15})(?:\.(\d{1,30}))?$/.exec(text);
  if (plain === null) {
    // An exponent, or more digits than any valid instant has: exact to what a double holds.
    const value = text.length <= 64 ? Number(text) : Number.NaN;
    const whole = Math.floor(value);
    return withinYears(whole, Math.min(999_999, Math.round((value - whole) * 1_000_000)));
  }
  const ms = Number(plain[2]);
  const nanos = Number((plain[3] ?? '').slice(0, 6).padEnd(6, '0'));
  if (plain[1] === '') return withinYears(ms, nanos);
  return nanos === 0 ? withinYears(0 - ms, 0) : withinYears(-ms - 1, 1_000_000 - nanos);
}

/** OTLP's nanoseconds since the epoch, given as the two halves of an unsigned 64-bit number. Exact. */
export function instantFromUnixNanos(hi: number, lo: number): Instant {
  // Long division by 10^6 with digits of 32 bits: no step exceeds 2^53.
  const rest = (hi % 1_000_000) * 4_294_967_296 + lo;
  const ms = Math.floor(hi / 1_000_000) * 4_294_967_296 + Math.floor(rest / 1_000_000);
  return { ms, ns: rest % 1_000_000 };
}

/** Nanoseconds since the epoch; negative before 1970. */
export function unixNanosOf(instant: Instant): bigint {
  return BigInt(instant.ms) * 1_000_000n + BigInt(instant.ns);
}

/** `YYYY-MM-DDThh:mm:ss.mmmZ`, with six or nine digits of fraction where the instant needs them. */
export function formatInstant(instant: Instant): string {
  const text = new Date(instant.ms).toISOString();
  if (instant.ns === 0) return text;
  const rest = String(instant.ns).padStart(6, '0');
  return `${text.slice(0, -1)}${rest.endsWith('000') ? rest.slice(0, 3) : rest}Z`;
}

/** Negative where `a` is earlier, zero where they are the same instant, positive otherwise. */
export function compareInstants(a: Instant, b: Instant): number {
  return a.ms === b.ms ? a.ns - b.ns : a.ms - b.ms;
}

function withinYears(ms: number, ns: number): Instant | undefined {
  return ms >= YEAR_0000_MS && ms <= YEAR_9999_END_MS ? { ms, ns } : undefined;
}
