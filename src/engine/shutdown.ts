import type { Clock, Logger } from '../component/component.ts';
import type { Health } from '../component/health.ts';
import type { Edges } from './edges.ts';
import type { Unit } from './units.ts';
import { describe, startDeadline, stopUnit } from './units.ts';

/** The report of a shutdown. */
export type ShutdownReport = {
  /** Milliseconds it took. */
  readonly took: number;
  /** Requests in progress when it began: answered, or cut at the deadline without an acknowledgement. */
  readonly inFlight: { readonly finished: number; readonly aborted: number };
  /** Entries and items that wait on disk for the next start. */
  readonly queued: readonly {
    readonly id: string;
    readonly entries: number;
    readonly items: number;
  }[];
  /** Components that did not stop in time. */
  readonly leftBehind: readonly string[];
  /** Acknowledged items that are lost: none, because items are durable before they are acknowledged. */
  readonly lost: 0;
};

/**
 * Stops a graph in the direction of the data:
 *
 *   receivers (in parallel) ─▶ connectors, upstream first ─▶ processors ─▶ exporters ─▶ extensions
 */
export async function stopAll(options: {
  readonly units: readonly Unit[];
  readonly edges: Edges;
  readonly health: Health;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Milliseconds. */
  readonly timeout: number;
}): Promise<ShutdownReport> {
  const { units, edges, health, clock, logger } = options;
  const startedAt = clock.now();
  const deadline = startDeadline(clock, options.timeout);
  const inFlight = edges.inFlight();
  const leftBehind: string[] = [];
  const stop = async (unit: Unit) => {
    if (!(await stopUnit(unit, deadline, logger))) leftBehind.push(describe(unit.node));
  };
  const ofKind = (kind: Unit['node']['kind']) => units.filter(({ node }) => node.kind === kind);

  await Promise.all(ofKind('receiver').map(stop));
  const aborted = Math.min(inFlight, edges.inFlight());
  const queued = waiting(health);
  for (const unit of ofKind('connector').toReversed()) await stop(unit);
  await Promise.all(ofKind('processor').map(stop));
  await Promise.all(ofKind('exporter').map(stop));
  for (const unit of ofKind('extension').toReversed()) await stop(unit);
  deadline.cancel();
  return {
    took: clock.now() - startedAt,
    inFlight: { finished: inFlight - aborted, aborted },
    queued,
    leftBehind,
    lost: 0,
  };
}

/** Queues report `queued_entries` and `queued_items` in their health. */
function waiting(health: Health): ShutdownReport['queued'] {
  return health.report(true).components.flatMap(({ id, details }) => {
    const entries = details?.queued_entries;
    const items = details?.queued_items;
    if (typeof entries !== 'number' || typeof items !== 'number') return [];
    return [{ id, entries, items }];
  });
}
