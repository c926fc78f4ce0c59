import type { ObservationDetails } from '../../model/details.ts';
import { MAX_TAGS } from '../../model/details.ts';
import { decodeJsonText } from '../../model/json/decode.ts';
import { cutText } from '../../model/narrow-limits.ts';
import { OBSERVATION_STATUSES } from '../../model/observation.ts';
import type { ObservationGroup } from './observation-groups.ts';
import { observationGroups } from './observation-groups.ts';
import type { Key, ObservationRow } from './observation-row.ts';
import {
  detailsFromColumn,
  isEnded,
  keyOfId,
  nameOfKey,
  ROW,
  sourceNumberOf,
} from './observation-row.ts';
import { NO_START } from './place.ts';
import type { FieldValues } from './trace-terms.ts';
import { observedValues } from './trace-terms.ts';
import type { NodeCost, TraceTotals, UsageNode } from './trace-totals.ts';
import { summaryTotals } from './trace-totals.ts';

/** The summary of a trace's observations. It depends on their rows only, so any order of arrival gives the same. */
export type TraceSummary = {
  readonly startMs: number | null;
  readonly startNs: number | null;
  readonly endMs: number | null;
  readonly endNs: number | null;
  /** Milliseconds; null without a start or an end. */
  readonly latency: number | null;
  /** Milliseconds from the trace's start to the first token of any observation. */
  readonly ttft: number | null;
  /** Row number of the root observation, or of the first observation if there is no root. */
  readonly root: number;
  readonly name: string | null;
  readonly status: number | null;
  readonly source: number;
  readonly isEnded: boolean;
  /** The newest time of any observation; without a sane one, the time of the newest event. */
  readonly newestMs: number;
  readonly count: number;
  readonly errors: number;
  readonly session: string | null;
  readonly user: string | null;
  readonly environment: string | null;
  readonly release: string | null;
  readonly facts: TraceFacts;
  /** The beginning of the root's inputs and outputs as text. */
  readonly inputPreview: string | null;
  readonly outputPreview: string | null;
  readonly groups: readonly ObservationGroup[];
  /** The values of fields of its observations, for `traceTerms`. */
  readonly observed: FieldValues;
  /** A time of an observation was ignored. */
  readonly isSkewed: boolean;
};

/** The members of a summary that have no column of their own. Absent members are empty. */
export type TraceFacts = {
  readonly usage?: Readonly<Record<string, number>>;
  readonly cost?: NodeCost;
  readonly models?: readonly string[];
  readonly tags?: readonly string[];
  readonly custom?: Readonly<Record<string, string>>;
};

export type SummedRow = { readonly n: number; readonly row: ObservationRow };

/** Further models and custom fields of a trace are left out. */
const MAX_MODELS = 32;
const MAX_CUSTOM_FIELDS = 32;

/** A row with its details, which are decoded once. */
type Seen = SummedRow & { readonly details: ObservationDetails | null };

/** `receivedAt`: the time of the trace's newest event; starts far behind it are ignored. `rows` are not empty. */
export function summarize(rows: readonly SummedRow[], receivedAt: number): TraceSummary {
  const ordered = rootFirst(rows.map(seen).sort(byRoot));
  const [root] = ordered;
  if (root === undefined) throw new Error('a trace without observations has no summary');
  const times = timesOf(root, rows, receivedAt);
  const { row } = root;
  return {
    ...times,
    latency: latencyOf(times),
    ttft: ttftOf(ordered, times),
    root: root.n,
    name: firstOf(ordered, ({ details }) => details?.traceName) ?? cutText(row[ROW.NAME]),
    status: row[ROW.STATUS],
    source: sourceNumberOf(row[ROW.FLAGS]),
    isEnded: isEnded(row[ROW.FLAGS]),
    newestMs: newestOf(rows, receivedAt),
    count: rows.length,
    errors: rows.filter((one) => isFailed(one.row)).length,
    session: cutText(firstOf(ordered, (one) => one.row[ROW.SESSION])),
    user: cutText(firstOf(ordered, (one) => one.row[ROW.USER])),
    environment: firstOf(ordered, ({ details }) => details?.environment),
    release: firstOf(ordered, ({ details }) => details?.release),
    inputPreview: root.details?.inputPreview ?? null,
    outputPreview: root.details?.outputPreview ?? null,
    ...totalsOf(ordered),
    observed: observedValues(ordered),
  };
}

function seen({ n, row }: SummedRow): Seen {
  return { n, row, details: detailsFromColumn(row[ROW.DETAILS]) };
}

/** The root first: without a parent, then by start (none is last), then by arrival. */
function byRoot(a: SummedRow, b: SummedRow): number {
  const [first, second] = [a.row, b.row];
  return (
    Number(first[ROW.PARENT] !== null) - Number(second[ROW.PARENT] !== null) ||
    (first[ROW.START_MS] ?? NO_START) - (second[ROW.START_MS] ?? NO_START) ||
    (first[ROW.START_NS] ?? 0) - (second[ROW.START_NS] ?? 0) ||
    a.n - b.n
  );
}

/**
 * The order with the outermost observation first. If the root never arrives, an inner observation may start at the same time as the outer
 * one, and arrive earlier, because it ended earlier.
 */
function rootFirst(ordered: readonly Seen[]): readonly Seen[] {
  const [first] = ordered;
  if (first === undefined || first.row[ROW.PARENT] === null) return ordered;
  const outer = outermostOf(
    first,
    ordered.filter(({ row }) => startsAs(row, first.row)),
  );
  return outer === first ? ordered : [outer, ...ordered.filter((one) => one !== outer)];
}

function startsAs(a: ObservationRow, b: ObservationRow): boolean {
  return a[ROW.START_MS] === b[ROW.START_MS] && (a[ROW.START_NS] ?? 0) === (b[ROW.START_NS] ?? 0);
}

/** Of a cycle of parents, the first one. */
function outermostOf(first: Seen, among: readonly Seen[]): Seen {
  if (among.length === 1) return first;
  const byId = new Map(among.map((one) => [nameOfKey(one.row[ROW.KEY]), one]));
  let outer = first;
  for (let steps = 0; steps < among.length; steps++) {
    const parent = byId.get(parentNameOf(outer.row[ROW.PARENT]) ?? '');
    if (parent === undefined) return outer;
    outer = parent;
  }
  return first;
}

const ERROR = OBSERVATION_STATUSES.indexOf('error');

function isFailed(row: ObservationRow): boolean {
  return row[ROW.STATUS] === ERROR;
}

/** The value of the root, else of the first observation that has one. */
function firstOf(
  ordered: readonly Seen[],
  of: (one: Seen) => string | null | undefined,
): string | null {
  for (const one of ordered) {
    const value = of(one);
    if (value !== null && value !== undefined) return value;
  }
  return null;
}

type Times = Pick<TraceSummary, 'startMs' | 'startNs' | 'endMs' | 'endNs' | 'isSkewed'>;

/** A start that is further behind the newest event is ignored: the clock that sent it is wrong. */
const FUTURE_MS = 24 * 3_600_000;
/** Children of a sane root count for the trace's time if they start within these of its start and end. */
const BEFORE_ROOT_MS = 5_000;
const AFTER_ROOT_MS = 10 * 60_000;

/**
 * From the earliest start to the latest end. Observations far outside of a root that has a start and an end were timed by
 * another clock: they neither move the trace in listings nor stretch it.
 */
function timesOf(root: SummedRow, rows: readonly SummedRow[], receivedAt: number): Times {
  const latest = receivedAt + FUTURE_MS;
  const frame = frameOf(root.row, latest);
  const times = { startMs: null, startNs: null, endMs: null, endNs: null, isSkewed: false } as {
    -readonly [Name in keyof Times]: Times[Name];
  };
  for (const { row } of rows) {
    if (!isWithin(row, frame, latest)) {
      times.isSkewed = true;
      continue;
    }
    const [startMs, startNs] = [row[ROW.START_MS], row[ROW.START_NS]];
    if (startMs !== null && isBefore(startMs, startNs, times.startMs, times.startNs)) {
      times.startMs = startMs;
      times.startNs = startNs ?? 0;
    }
    const [endMs, endNs] = [row[ROW.END_MS], row[ROW.END_NS]];
    if (
      endMs !== null &&
      isBefore(times.endMs ?? Number.NEGATIVE_INFINITY, times.endNs, endMs, endNs)
    ) {
      times.endMs = endMs;
      times.endNs = endNs ?? 0;
    }
  }
  return times;
}

/** The times within which observations start. */
type Frame = { readonly from: number; readonly to: number };

/** Null if the root has no parentless observation with sane times. */
function frameOf(root: ObservationRow, latest: number): Frame | null {
  const [startMs, endMs] = [root[ROW.START_MS], root[ROW.END_MS]];
  if (root[ROW.PARENT] !== null || startMs === null || endMs === null) return null;
  if (endMs < startMs || startMs > latest) return null;
  return { from: startMs - BEFORE_ROOT_MS, to: endMs + AFTER_ROOT_MS };
}

function isWithin(row: ObservationRow, frame: Frame | null, latest: number): boolean {
  const at = row[ROW.START_MS] ?? row[ROW.END_MS];
  if (at === null) return true;
  return at <= latest && (frame === null || (at >= frame.from && at <= frame.to));
}

function isBefore(
  ms: number,
  ns: number | null,
  thanMs: number | null,
  thanNs: number | null,
): boolean {
  return thanMs === null || ms < thanMs || (ms === thanMs && (ns ?? 0) < (thanNs ?? 0));
}

function latencyOf({ startMs, startNs, endMs, endNs }: Times): number | null {
  if (startMs === null || endMs === null) return null;
  const latency = endMs - startMs + ((endNs ?? 0) - (startNs ?? 0)) / 1e6;
  return latency < 0 ? null : latency;
}

function ttftOf(rows: readonly Seen[], { startMs, startNs }: Times): number | null {
  if (startMs === null) return null;
  let earliest: number | null = null;
  for (const { row, details } of rows) {
    const at = row[ROW.START_MS];
    if (details?.ttftMs === undefined || at === null) continue;
    const after = at - startMs + ((row[ROW.START_NS] ?? 0) - (startNs ?? 0)) / 1e6 + details.ttftMs;
    if (after >= 0 && (earliest === null || after < earliest)) earliest = after;
  }
  return earliest;
}

function newestOf(rows: readonly SummedRow[], receivedAt: number): number {
  let newest = Number.NEGATIVE_INFINITY;
  for (const { row } of rows) {
    for (const at of [row[ROW.START_MS], row[ROW.END_MS]]) {
      if (at !== null && at <= receivedAt + FUTURE_MS) newest = Math.max(newest, at);
    }
  }
  return newest === Number.NEGATIVE_INFINITY ? receivedAt : newest;
}

function totalsOf(ordered: readonly Seen[]): Pick<TraceSummary, 'facts' | 'groups'> {
  const grouped = ordered.map((one) => ({
    ...{ row: one.row, tool: one.details?.tool, node: nodeOf(one), isFailed: isFailed(one.row) },
  }));
  const totals = summaryTotals(grouped.map(({ node }) => node));
  return {
    facts: factsOf(ordered, totals),
    groups: observationGroups(grouped, totals),
  };
}

function factsOf(
  ordered: readonly Seen[],
  { usage, cost }: Pick<TraceTotals, 'usage' | 'cost'>,
): TraceFacts {
  const models = distinct(ordered.map(({ row }) => cutText(row[ROW.MODEL]))).slice(0, MAX_MODELS);
  const tags = distinct(ordered.flatMap(({ details }) => details?.tags ?? [])).slice(0, MAX_TAGS);
  const custom = customOf(ordered);
  return {
    ...(usage === null ? {} : { usage }),
    ...(cost === null ? {} : { cost }),
    ...(models.length === 0 ? {} : { models }),
    ...(tags.length === 0 ? {} : { tags }),
    ...(custom === null ? {} : { custom }),
  };
}

/** Sorted, so that the order of arrival does not show. */
function distinct(values: readonly (string | null)[]): string[] {
  return [...new Set(values.filter((value) => value !== null))].sort();
}

/** Those of the root, then those that other observations add. */
function customOf(ordered: readonly Seen[]): Record<string, string> | null {
  const all = new Map<string, string>();
  for (const { row } of ordered) {
    const custom = row[ROW.CUSTOM];
    if (custom === null) continue;
    const own = decodeJsonText(custom) as Record<string, string>;
    for (const [key, value] of Object.entries(own)) {
      if (!all.has(key) && all.size < MAX_CUSTOM_FIELDS) all.set(key, cutText(value));
    }
  }
  return all.size === 0 ? null : Object.fromEntries(all);
}

/** The part of a row that the totals of its trace depend on. */
function nodeOf({ row, details }: Seen): UsageNode {
  const usage = row[ROW.USAGE];
  return {
    id: nameOfKey(row[ROW.KEY]),
    parentId: parentNameOf(row[ROW.PARENT]),
    start: millisecondsOf(row[ROW.START_MS], row[ROW.START_NS]),
    end: millisecondsOf(row[ROW.END_MS], row[ROW.END_NS]),
    model: row[ROW.MODEL],
    scope: details?.scope ?? null,
    responseId: details?.responseId ?? null,
    usage: usage === null ? null : (decodeJsonText(usage) as Record<string, number>),
    cost: nodeCostOf(details),
  };
}

function nodeCostOf(details: ObservationDetails | null): NodeCost | null {
  if (details?.cost === undefined) return null;
  const { input, output, total } = details.cost;
  return { input, output, total };
}

/** The name of the parent's key; see `parentToColumn`. */
function parentNameOf(parent: string | Uint8Array | null): string | null {
  if (parent === null) return null;
  if (typeof parent !== 'string') return nameOfKey(keyOfId(Buffer.from(parent).toString()));
  const key: Key = parent.startsWith(':') ? parent : keyOfId(parent);
  return nameOfKey(key);
}

function millisecondsOf(ms: number | null, ns: number | null): number | null {
  return ms === null ? null : ms + (ns ?? 0) / 1e6;
}
