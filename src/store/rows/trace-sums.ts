import { decodeJsonText } from '../../model/json/decode.ts';
import type { ObservationKind } from '../../model/observation.ts';
import { OBSERVATION_KINDS } from '../../model/observation.ts';
import type { ObservationRow } from './observation-row.ts';

/** Sums of token counts. */
export type Sums = Record<string, number>;

/**
 * Sums of a trace over its observations, updated when they change, so that a listing reads one row
 * per trace. If a change cannot be followed (the earliest start moved later, the root got a parent), the trace is
 * summed up again.
 */
export class TraceState {
  readonly n: number;
  startMs: number | null = null;
  startNs: number | null = null;
  endMs: number | null = null;
  endNs: number | null = null;
  /** Row number of the root observation, or of the first where there is none. */
  root: number | null = null;
  rootKey: RootKey | null = null;
  name: string | null = null;
  status: number | null = null;
  count = 0;
  createdAt: number;
  updatedAt: number;
  /** Tokens of calls to models, and of everything else: a parent may repeat its children's. */
  modelUsage: Sums = {};
  otherUsage: Sums = {};
  mustRecount = false;

  constructor(n: number, at: number) {
    this.n = n;
    this.createdAt = at;
    this.updatedAt = at;
  }

  seen(at: number): void {
    if (at < this.createdAt) this.createdAt = at;
    if (at > this.updatedAt) this.updatedAt = at;
  }

  added(n: number, row: ObservationRow): void {
    this.count++;
    this.#widen(row);
    this.#addUsage(row, 1);
    this.#offerRoot(n, row);
  }

  changed(n: number, before: ObservationRow, after: ObservationRow): void {
    if (this.#shrinks(before, after)) this.mustRecount = true;
    this.#widen(after);
    if (before[14] !== after[14] || before[7] !== after[7]) {
      this.#addUsage(before, -1);
      this.#addUsage(after, 1);
    }
    if (n !== this.root) this.#offerRoot(n, after);
    else if (compareRoots(rootKeyOf(n, after), rootKeyOf(n, before)) > 0) this.mustRecount = true;
    else this.#setRoot(n, after);
  }

  #widen(row: ObservationRow): void {
    if (isEarlier(row[9], row[10], this.startMs, this.startNs)) {
      this.startMs = row[9];
      this.startNs = row[10];
    }
    if (isLater(row[11], row[12], this.endMs, this.endNs)) {
      this.endMs = row[11];
      this.endNs = row[12];
    }
  }

  /** The row may have been the one that set a bound, and does so no more. */
  #shrinks(before: ObservationRow, after: ObservationRow): boolean {
    const start = isEarlier(before[9], before[10], after[9], after[10]);
    const end = isLater(before[11], before[12], after[11], after[12]);
    return (
      (start && before[9] === this.startMs && before[10] === this.startNs) ||
      (end && before[11] === this.endMs && before[12] === this.endNs)
    );
  }

  #addUsage(row: ObservationRow, sign: 1 | -1): void {
    const usage = row[14];
    if (usage === null) return;
    const sums = isModelCall(row[7]) ? this.modelUsage : this.otherUsage;
    const counts = decodeJsonText(usage) as Sums;
    for (const name of Object.keys(counts)) {
      const before = Object.hasOwn(sums, name) ? (sums[name] ?? 0) : 0;
      sums[name] = before + sign * (counts[name] ?? 0);
      // Only all rows tell whether a name without tokens is still in another row.
      if (sign === -1 && sums[name] === 0) this.mustRecount = true;
    }
  }

  #offerRoot(n: number, row: ObservationRow): void {
    const key = rootKeyOf(n, row);
    if (this.rootKey === null || compareRoots(key, this.rootKey) < 0) this.#setRoot(n, row);
  }

  #setRoot(n: number, row: ObservationRow): void {
    this.root = n;
    this.rootKey = rootKeyOf(n, row);
    this.name = row[6];
    this.status = row[8];
  }
}

/** Roots first, then by start (none comes last), then by arrival. */
export type RootKey = readonly [hasParent: 0 | 1, startMs: number, startNs: number, n: number];

export function rootKeyOf(n: number, row: ObservationRow): RootKey {
  return [row[5] === null ? 0 : 1, row[9] ?? Number.MAX_SAFE_INTEGER, row[10] ?? 0, n];
}

function compareRoots(a: RootKey, b: RootKey): number {
  return a[0] - b[0] || a[1] - b[1] || a[2] - b[2] || a[3] - b[3];
}

function isEarlier(
  ms: number | null,
  ns: number | null,
  thanMs: number | null,
  thanNs: number | null,
): boolean {
  if (ms === null) return false;
  if (thanMs === null) return true;
  return ms < thanMs || (ms === thanMs && (ns ?? 0) < (thanNs ?? 0));
}

function isLater(
  ms: number | null,
  ns: number | null,
  thanMs: number | null,
  thanNs: number | null,
): boolean {
  if (ms === null) return false;
  if (thanMs === null) return true;
  return ms > thanMs || (ms === thanMs && (ns ?? 0) > (thanNs ?? 0));
}

const CALLS: readonly ObservationKind[] = ['generation', 'llm', 'model', 'embedding'];
const MODEL_CALLS = new Set(CALLS.map((kind) => OBSERVATION_KINDS.indexOf(kind)));

function isModelCall(kind: number | null): boolean {
  return kind !== null && MODEL_CALLS.has(kind);
}

export function sumsOf(text: unknown): Sums {
  return typeof text === 'string' ? (decodeJsonText(text) as Sums) : {};
}

export function sumsToText(sums: Sums): string | null {
  return Object.keys(sums).length === 0 ? null : JSON.stringify(sums);
}
