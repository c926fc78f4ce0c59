import type { RollupField } from '../../src/store/rollups/fields.ts';
import {
  MAX_ROLLUP_VALUE,
  MAX_VALUES_OF_TRACE,
  ROLLUP_FIELDS,
} from '../../src/store/rollups/fields.ts';
import type { DAY, HOUR } from '../../src/store/rollups/fold.ts';
import { bucketOf, countIn, pairsOf } from '../../src/store/rollups/histogram.ts';
import type { Hours } from '../../src/store/rollups/reading.ts';
import { SUMMED_KINDS, summaryTotals } from '../../src/store/rows/trace-totals.ts';
import type { Store, StoredObservation, StoredTrace } from '../../src/store/store.ts';
import { quantiles } from '../helper/quantiles.ts';
import { pointsOf } from '../helper/stats-points.ts';

const HOUR_MS = 3_600_000;
const FIELD_NAMES = Object.keys(ROLLUP_FIELDS) as RollupField[];

/** A number of each kind, in the order of rollups, and the three latencies. */
type Counted = { numbers: number[]; latencies: Map<number, number> };
/** By field, value and period. */
export type Sums = Record<string, { numbers: number[]; latencies: (number | null)[] }>;

/** The rollups of a project, as its traces and observations give them. */
export async function recount(store: Store, project: string, stepHours: number): Promise<Sums> {
  const sums = new Map<string, Counted>();
  for (const trace of await everyTrace(store, project)) {
    const observations = await everyObservation(store, project, trace.id);
    addTrace(sums, trace, observations, stepHours);
  }
  const entries = [...sums].map(([key, { numbers, latencies }]): [string, Sums[string]] => [
    key,
    { numbers, latencies: quantiles([pairsOf(latencies)], [0.5, 0.95, 0.99]) },
  ]);
  return Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** The rollups that the store reads. */
export async function rollups(
  store: Store,
  project: string,
  hours: Hours,
  step: typeof HOUR | typeof DAY,
): Promise<Sums> {
  const found: [string, Sums[string]][] = [];
  for (const field of FIELD_NAMES) {
    const asked = { field, values: null, isGrouped: field !== 'all', hours, step };
    const { points } = await store.rollups.stats(project, asked);
    for (const { key, time, numbers, latencies } of pointsOf(points)) {
      const name = nameOf(field, field === 'all' ? '' : key, time / HOUR_MS);
      found.push([name, { numbers: [...numbers], latencies: [...latencies] }]);
    }
  }
  return Object.fromEntries(found.sort(([a], [b]) => (a < b ? -1 : 1)));
}

function nameOf(field: RollupField, value: string | null, period: number): string {
  return JSON.stringify([field, value, period]);
}

function addTrace(
  sums: Map<string, Counted>,
  trace: StoredTrace,
  observations: readonly StoredObservation[],
  step: number,
): void {
  const at =
    (trace.startTime?.ms ?? Math.min(...observations.map((one) => one.createdAt))) / HOUR_MS;
  const period = Math.floor(at / step) * step;
  const { usage, cost, latencyMs } = trace;
  const numbers = [1, observations.length, trace.errorCount, ...tokensOf(usage), cost?.total ?? 0];
  const values: [RollupField, string | null][] = [
    ['name', trace.name],
    ['user', trace.userId],
    ['session', trace.sessionId],
    ['status', trace.status],
    ['key', trace.keyId],
    ['environment', trace.environment],
  ];
  const latencies = latencyMs === null ? [] : [latencyMs];
  add(sums, nameOf('all', '', period), numbers, latencies);
  for (const [field, value] of values) {
    if (value !== null) add(sums, nameOf(field, named(value), period), numbers, latencies);
  }
  for (const [key, group] of groupsOf(observations)) {
    const [field, value] = JSON.parse(key) as [RollupField, string | null];
    add(sums, nameOf(field, value, period), [1, ...group.numbers], group.latencies);
  }
}

type Group = { numbers: number[]; latencies: number[] };

/** By field and value. */
function groupsOf(observations: readonly StoredObservation[]): Map<string, Group> {
  const nodes = new Map(observations.map((one) => [one.id, nodeOf(one)]));
  const { omittedTokens, omittedCost } = summaryTotals([...nodes.values()]);
  const values = observations.flatMap((one): [RollupField, string | null, StoredObservation][] => [
    ['model', one.model, one],
    ['kind', one.kind, one],
    ['tool', one.details?.tool ?? (one.kind === 'tool' ? one.name : null), one],
  ]);
  const groups = new Map<string, Group>();
  for (const field of ['model', 'kind', 'tool'] as const) {
    const own = values.filter(([of, value]) => of === field && value !== null);
    const all = [...new Set(own.map(([, value]) => value ?? ''))].sort();
    const kept = all.filter((value) => value.length <= MAX_ROLLUP_VALUE);
    const byName = new Set(kept.slice(0, MAX_VALUES_OF_TRACE));
    for (const [, value, one] of own) {
      const key = JSON.stringify([field, byName.has(value ?? '') ? value : null]);
      const group = groups.get(key) ?? { numbers: [0, 0, 0, 0, 0, 0], latencies: [] };
      groups.set(key, group);
      const node = nodes.get(one.id) ?? nodeOf(one);
      const tokens = SUMMED_KINDS.map((kind, i) =>
        omittedTokens[i]?.has(node) === true ? 0 : (one.usage?.[kind] ?? 0),
      );
      const cost = omittedCost.has(node) ? 0 : (one.details?.cost?.total ?? 0);
      const numbers = [1, Number(one.status === 'error'), ...tokens, cost];
      group.numbers = group.numbers.map((number, i) => number + (numbers[i] ?? 0));
      const { start, end } = node;
      if (start !== null && end !== null && end >= start) group.latencies.push(end - start);
    }
  }
  return groups;
}

function nodeOf({ id, parentId, startTime, endTime, model, details, usage }: StoredObservation) {
  const ms = (time: { ms: number; ns: number } | null) => time && time.ms + time.ns / 1e6;
  const cost = details?.cost ?? null;
  const scope = details?.scope ?? null;
  const responseId = details?.responseId ?? null;
  const times = { start: ms(startTime), end: ms(endTime) };
  return { id, parentId, ...times, model, scope, responseId, usage, cost };
}

function tokensOf(usage: Readonly<Record<string, number | undefined>> | null): number[] {
  return ['input_tokens', 'output_tokens', 'cached_tokens'].map((kind) => usage?.[kind] ?? 0);
}

function named(value: string): string | null {
  return value.length > MAX_ROLLUP_VALUE ? null : value;
}

function add(
  sums: Map<string, Counted>,
  key: string,
  numbers: readonly number[],
  latencies: readonly number[],
): void {
  const sum = sums.get(key) ?? { numbers: numbers.map(() => 0), latencies: new Map() };
  sum.numbers = sum.numbers.map((number, i) => number + (numbers[i] ?? 0));
  for (const latency of latencies) countIn(sum.latencies, bucketOf(latency), 1);
  sums.set(key, sum);
}

async function everyTrace(store: Store, project: string): Promise<StoredTrace[]> {
  const traces: StoredTrace[] = [];
  let cursor: string | undefined;
  do {
    const filter = { limit: 500, ...(cursor === undefined ? {} : { cursor }) };
    const page = await store.traces.listTraces(project, filter);
    traces.push(...page.items);
    cursor = page.nextCursor ?? undefined;
  } while (cursor !== undefined);
  return traces;
}

async function everyObservation(
  store: Store,
  project: string,
  trace: string,
): Promise<StoredObservation[]> {
  const observations: StoredObservation[] = [];
  let cursor: string | undefined;
  do {
    const filter = { limit: 500, ...(cursor === undefined ? {} : { cursor }) };
    const page = await store.traces.listObservations(project, trace, filter);
    observations.push(...page.items);
    cursor = page.nextCursor ?? undefined;
  } while (cursor !== undefined);
  return observations;
}
