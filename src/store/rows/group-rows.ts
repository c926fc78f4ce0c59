import type { Instant } from '../../model/observation.ts';
import type { FoundGroup, GroupSums } from '../groups.ts';

/** A trace of the walk over groups. */
export type GroupRow = readonly [
  atMs: number,
  atNs: number,
  n: number,
  value: string,
  user: string | null,
];

/** The groups of a step, each at its first row. */
export function groupsOfRows(found: Iterable<GroupRow>): FoundGroup[] {
  const groups = new Map<string, FoundGroup>();
  for (const [ms, ns, n, value, userId] of found) {
    if (!groups.has(value)) groups.set(value, { value, userId, place: { ms, ns, n } });
  }
  return [...groups.values()];
}

/** The cells of sums, as both stores read them. Times are split into milliseconds and nanoseconds. */
export type GroupSumCells = readonly [
  traces: number,
  observations: number | null,
  errors: number | null,
  inputTokens: number | null,
  outputTokens: number | null,
  totalTokens: number | null,
  cost: number | null,
  firstMs: number | null,
  firstNs: number | null,
  lastMs: number | null,
  lastNs: number | null,
  lastUserId: string | null,
];

export function groupSumsOf(cells: GroupSumCells, sessions: readonly string[]): GroupSums {
  const [traces, observations, errors, inputTokens, outputTokens, totalTokens, ...rest] = cells;
  const [cost, firstMs, firstNs, lastMs, lastNs, lastUserId] = rest;
  return {
    ...{ traces, observations: observations ?? 0, errors: errors ?? 0 },
    ...{ inputTokens, outputTokens, totalTokens, cost, lastUserId, sessions },
    firstTime: instantOfParts(firstMs, firstNs),
    lastTime: instantOfParts(lastMs, lastNs),
  };
}

/** SQL divides towards zero: before 1970 both parts are negative. */
function instantOfParts(ms: number | null, ns: number | null): Instant | null {
  if (ms === null) return null;
  const part = ns ?? 0;
  return part < 0 ? { ms: ms - 1, ns: part + 1_000_000 } : { ms, ns: part };
}

/** The sums of a group, over its steps. */
export class GroupTotals {
  #sums: GroupSums = NOTHING;
  readonly #sessions = new Set<string>();

  get traces(): number {
    return this.#sums.traces;
  }

  get sums(): Omit<GroupSums, 'sessions'> & { readonly sessions: number } {
    return { ...this.#sums, sessions: this.#sessions.size };
  }

  add(more: GroupSums): void {
    const known = this.#sums;
    for (const session of more.sessions) this.#sessions.add(session);
    this.#sums = {
      traces: known.traces + more.traces,
      observations: known.observations + more.observations,
      errors: known.errors + more.errors,
      inputTokens: added(known.inputTokens, more.inputTokens),
      outputTokens: added(known.outputTokens, more.outputTokens),
      totalTokens: added(known.totalTokens, more.totalTokens),
      cost: added(known.cost, more.cost),
      firstTime: extremeOf(known.firstTime, more.firstTime, -1),
      lastTime: extremeOf(known.lastTime, more.lastTime, 1),
      lastUserId: laterText(known.lastUserId, more.lastUserId),
      sessions: [],
    };
  }
}

const NOTHING: GroupSums = {
  ...{ traces: 0, observations: 0, errors: 0, cost: null, lastUserId: null, sessions: [] },
  ...{ inputTokens: null, outputTokens: null, totalTokens: null, firstTime: null, lastTime: null },
};

function added(a: number | null, b: number | null): number | null {
  return a === null ? b : a + (b ?? 0);
}

/** The earlier (-1) or the later (1) one. */
export function extremeOf(a: Instant | null, b: Instant | null, sign: 1 | -1): Instant | null {
  if (a === null || b === null) return a ?? b;
  return sign * (a.ms - b.ms || a.ns - b.ns) >= 0 ? a : b;
}

/** In the order of their bytes, as the stores compare. */
function laterText(a: string | null, b: string | null): string | null {
  if (a === null || b === null) return a ?? b;
  return Buffer.compare(Buffer.from(a), Buffer.from(b)) >= 0 ? a : b;
}
