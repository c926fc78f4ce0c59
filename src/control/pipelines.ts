import { capability } from '../component/capability.ts';
import type { CountsByCode, FlowDurations, FlowNode, FlowReport } from '../component/flow.ts';
import type { HealthReport } from '../component/health.ts';
import type { QueueAdmin, QueueStats, QueueSummary } from '../queue/queue.ts';
import type { ControlHandler } from './server.ts';

/** Runs commands of the control socket for components: over all workers, if the daemon has several. */
export const CONTROL = capability<ControlHandler>('control');

/** The answer of `pipelines.show`: a report of each process. */
export type PipelineReports = { readonly processes: readonly PipelineReport[] };

/** The pipelines of one process. */
export type PipelineReport = {
  readonly flow: FlowReport;
  /** By the id of their component. */
  readonly queues: Readonly<Record<string, QueueReport>>;
  readonly health: HealthReport['components'];
};

/** The queues that count items and bytes have the numbers of `QueueStats`. */
type QueueReport = (QueueSummary | QueueStats) & {
  /** Whether other processes have the same queue. */
  readonly isShared: boolean;
};

type Running = {
  readonly flow: FlowReport;
  readonly queues: ReadonlyMap<string, QueueAdmin>;
  readonly health: HealthReport;
};

export function pipelineReport({ flow, queues, health }: Running): PipelineReport {
  const reports = [...queues].map(([id, queue]): [string, QueueReport] => {
    return [id, { ...queue.stats(), isShared: queue.isShared === true }];
  });
  return { flow, queues: Object.fromEntries(reports), health: health.components };
}

/** The JSON of the pipelines, over the processes: counters add up, and a shared queue counts once. */
export function shownPipelines({ processes }: PipelineReports, now: number): object {
  const flows = processes.map(({ flow }) => flow);
  const [first] = flows;
  const since = flows.length === 0 ? now : Math.max(...flows.map((flow) => flow.since));
  return {
    at: iso(now),
    since: iso(since),
    processes: processes.length,
    nodes: (first?.nodes ?? []).map((node) => shownNode(node, processes)),
    edges: first?.edges ?? [],
  };
}

function shownNode({ key, kind, id, type, pipeline }: FlowNode, all: readonly PipelineReport[]) {
  const same = all.flatMap(({ flow }) => flow.nodes.filter((node) => node.key === key));
  const codes = {
    rejected: addedUp(same.map((node) => node.codes.rejected)),
    refused: addedUp(same.map((node) => node.codes.refused)),
    dropped: addedUp(same.map((node) => node.codes.dropped)),
    failed: addedUp(same.map((node) => node.codes.failed)),
  };
  return {
    ...{ id: key, kind, name: id, type, pipeline },
    counters: {
      ...addedUp(same.map(({ counts }) => counts)),
      items_rejected: sum(Object.values(codes.rejected)),
      items_dropped: sum(Object.values(codes.dropped)),
      items_failed: sum(Object.values(codes.failed)),
    },
    codes,
    latency: shownLatency(same.flatMap(({ durations }) => durations ?? [])),
    // A processor may have the id of a queue.
    queue: kind === 'processor' ? null : shownQueue(all.flatMap(({ queues }) => queues[id] ?? [])),
    health: shownHealth(all.flatMap(({ health }) => health.filter((part) => part.id === id))),
  };
}

function addedUp(all: readonly Readonly<Partial<CountsByCode>>[]): Record<string, number> {
  const sums: Record<string, number> = {};
  for (const [name, value = 0] of all.flatMap((each) => Object.entries(each))) {
    sums[name] = (sums[name] ?? 0) + value;
  }
  return sums;
}

function shownLatency(all: readonly FlowDurations[]) {
  const [first] = all;
  const count = sum(all.map((each) => each.count));
  if (first === undefined || count === 0) return null;
  const { bounds } = first;
  const buckets = first.buckets.map((_, i) => sum(all.map((each) => each.buckets[i] ?? 0)));
  return {
    count,
    sum_seconds: sum(all.map((each) => each.sum)),
    p50_seconds: quantile(0.5, bounds, buckets),
    p95_seconds: quantile(0.95, bounds, buckets),
    bounds_seconds: bounds,
    buckets,
  };
}

/** Interpolates in the bucket, as Prometheus does. Beyond the last bound it is that bound. */
export function quantile(
  q: number,
  bounds: readonly number[],
  buckets: readonly number[],
): number | null {
  const rank = q * sum(buckets);
  if (rank === 0) return null;
  let below = 0;
  for (const [i, bound] of bounds.entries()) {
    const inside = buckets[i] ?? 0;
    const lowest = bounds[i - 1] ?? 0;
    if (inside > 0 && below + inside >= rank) {
      return lowest + ((bound - lowest) * (rank - below)) / inside;
    }
    below += inside;
  }
  return bounds.at(-1) ?? null;
}

function shownQueue(reports: readonly QueueReport[]) {
  const counted = reports.some(({ isShared }) => isShared) ? reports.slice(0, 1) : reports;
  if (counted.length === 0) return null;
  const stats = counted.filter((each) => 'bytes' in each);
  const known = (value: (each: QueueStats) => number): number | null => {
    return stats.length === 0 ? null : sum(stats.map(value));
  };
  const branches = shownBranches(counted);
  const maxBytes = known((each) => each.maxBytes);
  return {
    entries: sum(branches.map(({ entries }) => entries)),
    leased: sum(branches.map(({ leased }) => leased)),
    items: stats.length === 0 ? null : sum(branches.map(({ items }) => items ?? 0)),
    oldest_at: earliest(branches.map(({ oldest_at }) => oldest_at)),
    bytes: known(({ bytes }) => bytes),
    max_bytes: maxBytes === null || maxBytes >= Number.MAX_SAFE_INTEGER ? null : maxBytes,
    dead_letters: sum(counted.map(({ deadLetters }) => deadLetters)),
    dead_letter_items: sum(counted.map(({ deadLetterItems }) => deadLetterItems)),
    quarantined: known(({ quarantined }) => quarantined),
    branches,
  };
}

function shownBranches(reports: readonly QueueReport[]) {
  const names = new Set(reports.flatMap(({ branches }) => branches.map(({ branch }) => branch)));
  return [...names].map((name) => {
    const all = reports.flatMap((report) => {
      return [...report.branches].filter(({ branch }) => branch === name);
    });
    const counted = all.flatMap((each) => ('items' in each ? [each.items as number] : []));
    const oldest = all.flatMap(({ oldestAt }) => oldestAt ?? []);
    return {
      exporter: name,
      entries: sum(all.map(({ entries }) => entries)),
      leased: sum(all.map(({ leased }) => leased)),
      items: counted.length === 0 ? null : sum(counted),
      oldest_at: oldest.length === 0 ? null : iso(Math.min(...oldest)),
    };
  });
}

function shownHealth(parts: HealthReport['components']) {
  if (parts.length === 0) return null;
  const worst = parts.find(({ ready, healthy }) => ready === false || healthy === false);
  const shown = worst ?? parts[0];
  return {
    ready: parts.every(({ ready }) => ready !== false),
    healthy: parts.every(({ healthy }) => healthy !== false),
    message: shown?.message ?? null,
    details: shown?.details ?? {},
  };
}

function earliest(times: readonly (string | null)[]): string | null {
  return times.flatMap((time) => time ?? []).sort()[0] ?? null;
}

function iso(at: number): string {
  return new Date(at).toISOString();
}

function sum(values: readonly number[]): number {
  return values.reduce((all, value) => all + value, 0);
}
