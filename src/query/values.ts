import { parseInstant } from '../model/instant.ts';
import type { Instant } from '../model/observation.ts';
import type { QueryField } from './fields.ts';
import type { NumberRange, TimeRange } from './query.ts';
import { QueryMistake } from './query.ts';

/** One value of a list, as it was written. */
export type RawValue = {
  readonly text: string;
  readonly isQuoted: boolean;
  /** Whether a `*` follows the quotes. */
  readonly isPrefix: boolean;
  /** Index of its first character. */
  readonly position: number;
};

const NUMBER = /^-?\d+(?:\.\d+)?(?:e[+-]?\d+)?$/i;
const WITH_UNIT = /^(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)([a-z]+)$/i;
const COMPARISON = /^(>=|<=|>|<)/;

const DURATION_MS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};
const COUNT_FACTORS: Readonly<Record<string, number>> = { k: 1000, m: 1_000_000 };

/** The range of `>2s`, `1..5` or `10`. */
export function numberRange(field: QueryField, value: RawValue): NumberRange {
  const { text, position } = value;
  const comparison = COMPARISON.exec(text)?.[1] ?? '';
  const numberAt = (from: number, to = text.length): number =>
    numberOf(field, text.slice(from, to), position + from);
  if (comparison !== '') return compared(comparison, numberAt(comparison.length));
  const dots = text.indexOf('..');
  if (dots === -1) return between(numberAt(0), numberAt(0));
  const [min, max] = [numberAt(0, dots), numberAt(dots + 2)];
  if (min > max) throw new QueryMistake('The range {place} is empty', position);
  return between(min, max);
}

function between(min: number, max: number): NumberRange {
  return { min, max, isAboveMin: false, isBelowMax: false };
}

function compared(comparison: string, number: number): NumberRange {
  return comparison.startsWith('>')
    ? { min: number, max: null, isAboveMin: comparison === '>', isBelowMax: false }
    : { min: null, max: number, isAboveMin: false, isBelowMax: comparison === '<' };
}

/** Whether an unquoted value of a score is a number or a range of numbers. */
export function isNumeric({ text, isQuoted }: RawValue): boolean {
  if (isQuoted) return false;
  const bare = text.replace(COMPARISON, '');
  return bare !== text || bare.split('..', 2).every((part) => NUMBER.test(part));
}

function numberOf({ type }: QueryField, text: string, position: number): number {
  const number = readNumber(type, text);
  if (number !== undefined && Number.isFinite(number)) return number;
  throw new QueryMistake(`${EXPECTED[type] ?? 'Expected a number'} {place}`, position);
}

const EXPECTED: Partial<Record<QueryField['type'], string>> = {
  duration: 'Expected a duration with a unit, such as 800ms, 2s or 1m,',
  money: 'Expected an amount in USD, such as 0.01,',
  count: 'Expected a number, such as 500 or 10k,',
};

function readNumber(type: QueryField['type'], text: string): number | undefined {
  if (type === 'duration') return scaled(text, DURATION_MS);
  if (type === 'money') return plain(text.startsWith('$') ? text.slice(1) : text);
  if (type === 'count') return plain(text) ?? scaled(text, COUNT_FACTORS);
  return plain(text);
}

function plain(text: string): number | undefined {
  return NUMBER.test(text) ? Number(text) + 0 : undefined;
}

function scaled(text: string, factors: Readonly<Record<string, number>>): number | undefined {
  const [, number, unit] = WITH_UNIT.exec(text) ?? [];
  const factor = unit === undefined ? undefined : factors[unit.toLowerCase()];
  return factor === undefined ? undefined : Number(number) * factor;
}

/** The range of `>=2026-11-03`, `2026-11-01..2026-11-03` or `now-24h..now`. A day is a range of 24 hours. */
export function timeRange({ text: written, position }: RawValue, now: Instant): TimeRange {
  // A comma separates values; both are allowed before a fraction.
  const text = written.replaceAll(',', '.');
  const comparison = COMPARISON.exec(text)?.[1] ?? '';
  const timeAt = (from: number, to = text.length): Period =>
    periodOf(text.slice(from, to), position + from, now);
  if (comparison !== '') {
    const { from, to } = timeAt(comparison.length);
    if (comparison === '>=') return { from, to: null, text };
    if (comparison === '>') return { from: to, to: null, text };
    return { from: null, to: comparison === '<' ? from : to, text };
  }
  const dots = text.indexOf('..');
  if (dots === -1) return { ...timeAt(0), text };
  const [first, last] = [timeAt(0, dots), timeAt(dots + 2)];
  if (isBefore(last.to, first.from)) throw new QueryMistake('The range {place} is empty', position);
  return { from: first.from, to: last.to, text };
}

/** The instants of one literal; `to` is exclusive. */
type Period = { readonly from: Instant; readonly to: Instant };

const DAY = /^\d{4}-\d{2}-\d{2}$/;
const MINUTE = /^(\d{4}-\d{2}-\d{2}T\d{2}:\d{2})(Z|[+-]\d{2}(?::\d{2})?)?$/;
const SECOND = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:Z|[+-]\d{2}(?::\d{2})?)?$/;
const RELATIVE = /^now(?:-(\d+)([smhd]))?$/;

function periodOf(text: string, position: number, now: Instant): Period {
  const [relative, amount, unit] = RELATIVE.exec(text) ?? [];
  if (relative !== undefined) {
    const ago = amount === undefined ? 0 : Number(amount) * (DURATION_MS[unit ?? ''] ?? 0);
    return instantOnly({ ms: now.ms - ago, ns: now.ns });
  }
  const [minute, start, zone = ''] = MINUTE.exec(text) ?? [];
  const full =
    minute === undefined ? (DAY.test(text) ? `${text}T00:00:00` : text) : `${start}:00${zone}`;
  const instant = parseInstant(full);
  if (instant === undefined) {
    throw new QueryMistake(
      'Expected a time {place}, such as 2026-11-03, 2026-11-03T14:00Z or now-24h',
      position,
    );
  }
  const { ms, ns } = instant;
  if (DAY.test(text)) return { from: instant, to: { ms: ms + 86_400_000, ns } };
  if (minute !== undefined) return { from: instant, to: { ms: ms + 60_000, ns } };
  return SECOND.test(text) ? { from: instant, to: { ms: ms + 1000, ns } } : instantOnly(instant);
}

function instantOnly(from: Instant): Period {
  const to = from.ns === 999_999 ? { ms: from.ms + 1, ns: 0 } : { ms: from.ms, ns: from.ns + 1 };
  return { from, to };
}

function isBefore(a: Instant, b: Instant): boolean {
  return a.ms < b.ms || (a.ms === b.ms && a.ns <= b.ns);
}
