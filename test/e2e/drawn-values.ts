import { drawn } from './drawn.ts';

/** Draws from a seed, and the values that drawn traces have and drawn queries ask for. */

export class Draw {
  readonly below: (bound: number) => number;

  constructor(seed: number) {
    this.below = drawn(seed);
  }

  chance(percent: number): boolean {
    return this.below(100) < percent;
  }

  one<T>(values: readonly T[]): T {
    const value = this.maybe(values);
    if (value === undefined) throw new Error('no value to draw');
    return value;
  }

  /** Undefined if there is no value. */
  maybe<T>(values: readonly T[]): T | undefined {
    return values[this.below(Math.max(1, values.length))];
  }

  times<T>(count: number, make: (index: number) => T): T[] {
    return Array.from({ length: count }, (_, index) => make(index));
  }

  /** An id of OpenTelemetry, which is not all zeros. */
  hex(digits: number): string {
    const [first, ...others] = this.times(digits, () => this.below(16));
    return [first === 0 ? 1 : first, ...others].map((digit) => digit?.toString(16)).join('');
  }

  uuid(): string {
    const groups = /^(.{8})(.{4}).(.{3}).(.{3})(.{12})$/;
    return this.hex(32).replace(groups, '$1-$2-4$3-a$4-$5');
  }
}

/** Texts with cases, accents, characters of SQL and of the query language, and one that lists cut. */
export const NAMES = [
  ...['chat', 'Chat', 'plan trip', 'été', '検索', 'a"b', "o'c", 'x*y', 'a%b_c', 'back\\slash', ''],
  ...['naïve', 'search:web', '10:30', 'emoji 😀', 'long '.repeat(60)],
];
export const MODELS = [
  ...['gpt-4o', 'gpt-4o-mini', 'claude-3-5-sonnet-20241022', 'my-own', 'Gpt-4o'],
  ...['gemini-1.5-pro', 'm'.repeat(250)],
];
export const PROVIDERS = ['openai', 'anthropic', 'gcp.gemini'];
export const KINDS = [
  ...['event', 'span', 'generation', 'agent', 'tool', 'chain', 'retriever', 'embedding', 'llm'],
  ...['model', 'graph'],
];
export const STATUSES = [
  ...['pending', 'running', 'success', 'ok', 'error', 'interrupted', 'cancelled'],
];
export const SESSIONS = ['s1', 's2', 'S1', 'session with space', 'z'.repeat(300), 'ü', 's"3'];
export const USERS = ['u1', 'u2', 'U1', 'jane@example.com', 'y'.repeat(300), 'user,comma'];
export const ENVIRONMENTS = ['prod', 'dev', 'Prod', 'staging eu'];
export const RELEASES = ['1.0', '2.0'];
export const TAGS = ['a', 'b', 'A', 'tag one', 't'.repeat(200), 'ß'];
export const TOOLS = ['search', 'calc', 'x y'];
export const SCORES = ['q', 'v'];
export const CUSTOM_KEYS = ['env', 'Env', 'k 1', 'team', 'é', 'n'];
export const CUSTOM_VALUES = ['x', 'y', 'X', '1', 1, true, 'a b', 'q'.repeat(300), ''];

const MINUTE_MS = 60_000;
export const HOUR_MS = 60 * MINUTE_MS;

export const iso = (ms: number): string => new Date(ms).toISOString();

/**
 * A start up to 20 days before `now`, at times at the edge of an hour. Its age modulo an hour is from 1 to 50 minutes, so that
 * neither `now-1h` of a query nor `stale_after` reaches a trace while the test runs.
 */
export function drawnStart(draw: Draw, now: number): number {
  const at = drawnTime(draw, now);
  const age = (now - at) % HOUR_MS;
  return age >= MINUTE_MS && age < 50 * MINUTE_MS ? at : at - 20 * MINUTE_MS;
}

function drawnTime(draw: Draw, now: number): number {
  const how = draw.below(12);
  if (how < 6) return now - draw.below(3 * HOUR_MS);
  if (how < 8) return now - draw.below(26 * HOUR_MS);
  if (how < 10) return now - draw.below(20 * 24) * HOUR_MS;
  if (how === 10) return now - draw.below(12) * 5 * MINUTE_MS;
  const hour = Math.floor((now - draw.below(5 * HOUR_MS)) / HOUR_MS);
  return hour * HOUR_MS - draw.below(2);
}
