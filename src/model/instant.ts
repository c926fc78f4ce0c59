import type { Instant } from './observation.ts';

/**
 * Instants to the nanosecond. The grammar is the extended date and time of ISO 8601:
 * `YYYY-MM-DDThh:mm:ss`, a fraction of 1 to 30 digits behind `.` or `,`, then `Z`, `±hh:mm`, `±hh`, or
 * nothing, which means UTC. The calendar is checked; there is no second 60 and no hour 24. Digits past the
 * nanosecond are cut off. Reading stops at the first invalid character, so long invalid text costs nothing.
 */

const YEAR_0000_MS = -62_167_219_200_000;
const YEAR_9999_END_MS = 253_402_300_799_999;
const MINUTE_MS = 60_000;
const MAX_FRACTION_DIGITS = 30;

/**
 * Undefined for any other text, and for instants outside the years 0000 to 9999 in UTC. With `takesSpace`, a space may stand for the
 * `T`: so Python prints times.
 */
export function parseInstant(text: string, takesSpace = false): Instant | undefined {
  if (text.length > LONGEST) return undefined;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code > 0x7f) return undefined;
    SCRATCH[at] = code;
  }
  return instantIn(SCRATCH, 0, text.length, takesSpace);
}

/** 19 characters, a fraction of 31 and an offset of 6. */
const LONGEST = 56;
/** Not a `Buffer`: the query language, which reads times, runs in browsers too. */
const SCRATCH = new Uint8Array(LONGEST);

/** As `parseInstant`, for the text at [start, end) of a body. */
export function instantIn(
  bytes: Uint8Array,
  start: number,
  end: number,
  takesSpace = false,
): Instant | undefined {
  const days = dateIn(bytes, start);
  if (days === undefined || end - start < 19) return undefined;
  const separator = bytes[start + 10];
  if (separator !== LETTER_T && !(takesSpace && separator === SPACE)) return undefined;
  if (bytes[start + 13] !== COLON || bytes[start + 16] !== COLON) return undefined;
  const hour = digits(bytes, start + 11, 2);
  const minute = digits(bytes, start + 14, 2);
  const second = digits(bytes, start + 17, 2);
  if (!(hour <= 23 && minute <= 59 && second <= 59)) return undefined;
  let at = start + 19;
  let nanos = 0;
  if (at < end && (bytes[at] === DOT || bytes[at] === COMMA)) {
    const first = ++at;
    while (at < end && at - first <= MAX_FRACTION_DIGITS && isDigit(bytes[at])) at++;
    if (at === first || at - first > MAX_FRACTION_DIGITS) return undefined;
    const kept = Math.min(at - first, 9);
    nanos = digits(bytes, first, kept) * (POWERS_OF_TEN[9 - kept] ?? 1);
  }
  const offset = offsetIn(bytes, at, end);
  if (offset === undefined) return undefined;
  const seconds = (days * 24 + hour) * 3600 + minute * 60 + second;
  const ms = seconds * 1000 - offset * MINUTE_MS + Math.floor(nanos / 1_000_000);
  return withinYears(ms, nanos % 1_000_000);
}

const SPACE = 0x20;
const COMMA = 0x2c;
const MINUS = 0x2d;
const DOT = 0x2e;
const PLUS = 0x2b;
const COLON = 0x3a;
const LETTER_T = 0x54;
const LETTER_Z = 0x5a;
const POWERS_OF_TEN = [1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8];

/** Days since the epoch of the `YYYY-MM-DD` at `start`. */
function dateIn(bytes: Uint8Array, start: number): number | undefined {
  if (bytes[start + 4] !== MINUS || bytes[start + 7] !== MINUS) return undefined;
  const year = digits(bytes, start, 4);
  const month = digits(bytes, start + 5, 2);
  const day = digits(bytes, start + 8, 2);
  if (!(year >= 0 && month >= 1 && month <= 12)) return undefined;
  if (!(day >= 1 && day <= daysIn(year, month))) return undefined;
  const past = (DAYS_BEFORE_MONTH[month - 1] ?? 0) + (month > 2 ? leap(year) : 0);
  return daysBefore(year) + past + day - 1;
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

/** Minutes east of UTC of the time zone at [at, end); undefined if it is no zone. */
function offsetIn(bytes: Uint8Array, at: number, end: number): number | undefined {
  if (at === end) return 0;
  const sign = bytes[at];
  if (sign === LETTER_Z) return at + 1 === end ? 0 : undefined;
  if (sign !== PLUS && sign !== MINUS) return undefined;
  const hours = digits(bytes, at + 1, 2);
  const isLong = end === at + 6 && bytes[at + 3] === COLON;
  const minutes = isLong ? digits(bytes, at + 4, 2) : 0;
  if (!isLong && end !== at + 3) return undefined;
  if (!(hours <= 23 && minutes <= 59)) return undefined;
  return (sign === PLUS ? 1 : -1) * (hours * 60 + minutes);
}

/** The number that `count` ASCII digits spell; NaN if another character is among them. */
function digits(bytes: Uint8Array, start: number, count: number): number {
  let value = 0;
  for (let at = start; at < start + count; at++) {
    const digit = bytes[at];
    if (digit === undefined || !isDigit(digit)) return Number.NaN;
    value = value * 10 + digit - 0x30;
  }
  return value;
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= 0x30 && byte <= 0x39;
}

/**
 * The instant of a JSON number of seconds or milliseconds since the epoch, whichever gives a time between 2001 and 9999 (seconds:
 * and 2603); a fraction counts to the nanosecond. No number is plausible as both. Undefined for any other number.
 */
export function instantFromNumber(text: string): Instant | undefined {
  const plain = /^(\d{10,15})(?:\.(\d{1,30}))?$/.exec(text);
  // An exponent, or more digits than any valid instant has: as exact as a double.
  const value = plain === null && text.length > 64 ? Number.NaN : Number(text);
  const isSeconds = value >= FIRST_SECOND && value < LAST_SECOND;
  if (!isSeconds && !(value >= FIRST_MS)) return undefined;
  if (plain === null) {
    const ms = isSeconds ? value * 1000 : value;
    const whole = Math.floor(ms);
    return withinYears(whole, Math.min(999_999, Math.round((ms - whole) * 1_000_000)));
  }
  const digits = (plain[2] ?? '').padEnd(9, '0');
  const ofMs = isSeconds ? 3 : 0;
  const ms = Number((plain[1] ?? '') + digits.slice(0, ofMs));
  return withinYears(ms, Number(digits.slice(ofMs, ofMs + 6)));
}

const FIRST_SECOND = 1e9;
const LAST_SECOND = 2e10;
const FIRST_MS = 1e12;

/** The exact instant of OTLP's nanoseconds since the epoch: the halves of an unsigned 64-bit number. */
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

/** `YYYY-MM-DDThh:mm:ss.mmmZ`, with six or nine digits of fraction if the instant needs them. */
export function formatInstant({ ms, ns }: Instant): string {
  const text = digitsOf(ms);
  if (ns === 0) return `${text}Z`;
  const rest = String(ns).padStart(6, '0');
  return `${text}${rest.endsWith('000') ? rest.slice(0, 3) : rest}Z`;
}

/** Whole milliseconds since the epoch, as `formatInstant` has them. */
export function formatMs(ms: number): string {
  return `${digitsOf(ms)}Z`;
}

function digitsOf(ms: number): string {
  const minute = Math.floor(ms / MINUTE_MS);
  const slot = minute & (FORMATTED.length - 1);
  let formatted = FORMATTED[slot];
  if (formatted?.minute !== minute) {
    const prefix = new Date(minute * MINUTE_MS).toISOString().slice(0, -'00.000Z'.length);
    formatted = { minute, prefix };
    FORMATTED[slot] = formatted;
  }
  return formatted.prefix + SECONDS[Math.floor(ms / 1000) - minute * 60] + millisOf(ms);
}

/** Minutes that were formatted last, each in the slot of its last bits: the times of a trace are close to each other, and so are those of its arrival. */
const FORMATTED: ({ readonly minute: number; readonly prefix: string } | undefined)[] = new Array(
  64,
).fill(undefined);
const SECONDS = Array.from({ length: 60 }, (_, i) => `${String(i).padStart(2, '0')}.`);

/** Three digits. */
function millisOf(ms: number): string {
  const millis = ms - Math.floor(ms / 1000) * 1000;
  if (millis < 10) return `00${millis}`;
  return millis < 100 ? `0${millis}` : `${millis}`;
}

function withinYears(ms: number, ns: number): Instant | undefined {
  return ms >= YEAR_0000_MS && ms <= YEAR_9999_END_MS ? { ms, ns } : undefined;
}
