import { decodeJsonText } from '../../model/json/decode.ts';
import type { ObservationKind } from '../../model/observation.ts';
import { OBSERVATION_KINDS } from '../../model/observation.ts';
import type { ObservationRow } from './observation-row.ts';
import { ROW } from './observation-row.ts';
import type { Place } from './place.ts';
import { placeOfRow } from './place.ts';

/** Sums of token counts. */
export type Sums = Record<string, number>;

/**
 * The sums of a trace over its observations, updated with each change, so that a listing reads one row for each trace.
 * After a change that a difference cannot express (the earliest start moved later, the root got a parent) the trace
 * has to be summed up again: `mustRecount`.
 */
export class TraceState {
  readonly n: number;
  startMs: number | null = null;
  startNs: number | null = null;
  endMs: number | null = null;
  endNs: number | null = null;
  /** Row number of the root observation, or of the first observation if there is no root. */
  root: number | null = null;
  rootKey: RootKey | null = null;
  name: string | null = null;
  status: number | null = null;
  count = 0;
  createdAt: number;
  updatedAt: number;
  /** Tokens of model calls, and of all other observations: a parent can repeat the tokens of its children. */
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
    if (before[ROW.USAGE] !== after[ROW.USAGE] || before[ROW.KIND] !== after[ROW.KIND]) {
      this.#addUsage(before, -1);
      this.#addUsage(after, 1);
    }
    if (n !== this.root) this.#offerRoot(n, after);
    else if (compareRoots(rootKeyOf(n, after), rootKeyOf(n, before)) > 0) this.mustRecount = true;
    else this.#setRoot(n, after);
  }

  #widen(row: ObservationRow): void {
    const startMs = row[ROW.START_MS];
    const startNs = row[ROW.START_NS];
    if (isEarlier(startMs, startNs, this.startMs, this.startNs)) {
      this.startMs = startMs;
      this.startNs = startNs;
    }
    const endMs = row[ROW.END_MS];
    const endNs = row[ROW.END_NS];
    if (isLater(endMs, endNs, this.endMs, this.endNs)) {
      this.endMs = endMs;
      this.endNs = endNs;
    }
  }

  /** Whether the row set a bound of the trace before, and does not set it after. */
  #shrinks(before: ObservationRow, after: ObservationRow): boolean {
    const [startMs, startNs] = [before[ROW.START_MS], before[ROW.START_NS]];
    const [endMs, endNs] = [before[ROW.END_MS], before[ROW.END_NS]];
    const isLaterStart = isEarlier(startMs, startNs, after[ROW.START_MS], after[ROW.START_NS]);
    const isEarlierEnd = isLater(endMs, endNs, after[ROW.END_MS], after[ROW.END_NS]);
    return (
      (isLaterStart && startMs === this.startMs && startNs === this.startNs) ||
      (isEarlierEnd && endMs === this.endMs && endNs === this.endNs)
    );
  }

  #addUsage(row: ObservationRow, sign: 1 | -1): void {
    const usage = row[ROW.USAGE];
    if (usage === null) return;
    const sums = isModelCall(row[ROW.KIND]) ? this.modelUsage : this.otherUsage;
    const counts = decodeJsonText(usage) as Sums;
    for (const name of Object.keys(counts)) {
      const before = Object.hasOwn(sums, name) ? (sums[name] ?? 0) : 0;
      sums[name] = before + sign * (counts[name] ?? 0);
      // Only a recount shows whether another row still has the name.
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
    this.name = row[ROW.NAME];
    this.status = row[ROW.STATUS];
  }
}

/** Orders the candidates for the root: without a parent first, then by start (none is last), then by arrival. */
type RootKey = Place & { readonly hasParent: 0 | 1 };

export function rootKeyOf(n: number, row: ObservationRow): RootKey {
  const { ms, ns } = placeOfRow(n, row);
  return { hasParent: row[ROW.PARENT] === null ? 0 : 1, ms, ns, n };
}

function compareRoots(a: RootKey, b: RootKey): number {
  return a.hasParent - b.hasParent || a.ms - b.ms || a.ns - b.ns || a.n - b.n;
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

/** The kinds of observations whose tokens count first. */
const CALLS: readonly ObservationKind[] = ['generation', 'llm', 'model', 'embedding'];
const MODEL_CALLS = new Set(CALLS.map((kind) => OBSERVATION_KINDS.indexOf(kind)));

function isModelCall(kind: number | null): boolean {
  return kind !== null && MODEL_CALLS.has(kind);
}

export function sumsOf(text: string | null): Sums {
  return text === null ? {} : (decodeJsonText(text) as Sums);
}

export function sumsToText(sums: Sums): string | null {
  return Object.keys(sums).length === 0 ? null : JSON.stringify(sums);
}
