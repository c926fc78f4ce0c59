import { isDeepStrictEqual } from 'node:util';
import type { Clock, Logger } from '../component/component.ts';
import type { Build } from './build.ts';
import type { ConnectorNode, Graph, Node, ReceiverNode } from './graph.ts';
import type { PipelineSlot, PipelineStages } from './pipeline.ts';
import { drained } from './pipeline.ts';
import type { Deadline, Unit } from './units.ts';
import { startDeadline, startUnit, stopUnit } from './units.ts';

/**
 * The components of the running graph that the next one keeps: same configuration, same place in the pipelines,
 * and all of their dependencies are kept, too.
 */
export function chooseKept(running: Build, next: Graph): Map<string, Unit> {
  const nodes = new Map(allNodes(next).map((node) => [node.key, node]));
  const kept = new Map<string, Unit>();
  for (const [key, unit] of running.units) {
    const node = nodes.get(key);
    if (node === undefined || unit.state !== 'started') continue;
    if (hasSameConfig(unit.node, node) && hasSamePlace(running.graph, next, node))
      kept.set(key, unit);
  }
  dropDependents(kept);
  return kept;
}

/** Removes units with a dependency that is not kept, until no such unit is left. */
function dropDependents(kept: Map<string, Unit>): void {
  let before: number;
  do {
    before = kept.size;
    for (const [key, unit] of kept) {
      if ([...unit.dependencies].some((dependency) => !kept.has(dependency))) kept.delete(key);
    }
  } while (kept.size < before);
}

function allNodes(graph: Graph): Node[] {
  return [
    ...graph.extensions,
    ...graph.exporters,
    ...graph.processors,
    ...graph.connectors,
    ...graph.receivers,
  ];
}

function hasSameConfig(a: Node, b: Node): boolean {
  return (
    a.declared.factory === b.declared.factory &&
    isDeepStrictEqual(a.declared.config, b.declared.config)
  );
}

function hasSamePlace(running: Graph, next: Graph, node: Node): boolean {
  if (node.kind === 'receiver') {
    const before = running.receivers.find(({ key }) => key === node.key);
    return before?.pipelineId === (node as ReceiverNode).pipelineId;
  }
  if (node.kind !== 'connector') return true;
  const before = running.connectors.find(({ key }) => key === node.key);
  const { pipelineIds } = node as ConnectorNode;
  return (
    isDeepStrictEqual(before?.pipelineIds, pipelineIds) &&
    pipelineIds.every((id) => isDeepStrictEqual(shapeOf(running, id), shapeOf(next, id)))
  );
}

function shapeOf(graph: Graph, pipelineId: string): string[] {
  const plan = graph.pipelines.get(pipelineId);
  return [...(plan?.processors ?? []), ...(plan?.exporters ?? [])].map(({ key }) => key);
}

export type ExchangeOptions = {
  readonly running: Build;
  readonly next: Build;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Milliseconds that the leaving components may take to stop. */
  readonly timeout: number;
};

/**
 * Replaces the running graph by the next one. Until it is done, requests wait at closed
 * gates, so that a reload refuses none.
 *
 *   receivers of removed pipelines stop ─▶ gates close ─▶ leaving components stop, upstream first
 *     ─▶ new components start ─▶ slots get the new stages ─▶ gates open ─▶ leaving receivers stop
 *
 * Rejects with the `ComponentError` of a component that could not start. The new components are stopped again
 * then, and the gates are still closed: an exchange back to the former graph opens them.
 */
export async function exchange(options: ExchangeOptions): Promise<void> {
  const { running, next, clock, logger, timeout } = options;
  const leaving = [...running.units.values()].filter(
    (unit) => next.units.get(unit.node.key) !== unit,
  );
  const deadline = startDeadline(clock, timeout);
  try {
    await stopLeaving(options, leaving, deadline);
    await startAll(next.fresh, deadline, logger);
  } finally {
    deadline.cancel();
  }
  exchangeStages(pipelineSlotsOf(running), next.allStages);
  await stopReceivers(options, leaving.filter(isReceiver));
}

/** Their requests waited for the start of the next components, and get the whole time from here on. */
async function stopReceivers(
  { clock, logger, timeout }: ExchangeOptions,
  receivers: readonly Unit[],
): Promise<void> {
  const deadline = startDeadline(clock, timeout);
  try {
    await Promise.all(receivers.map((unit) => stopUnit(unit, deadline, logger)));
  } finally {
    deadline.cancel();
  }
}

/** Starts components in order. If one fails, all of them are stopped. */
export async function startAll(
  units: readonly Unit[],
  deadline: Deadline,
  logger: Logger,
): Promise<void> {
  for (const [i, unit] of units.entries()) {
    try {
      await startUnit(unit);
    } catch (error) {
      // The failed component may hold some of its resources, and the rest was created.
      for (const each of [...units.slice(0, i + 1).toReversed(), ...units.slice(i + 1)]) {
        await stopUnit(each, deadline, logger);
      }
      throw error;
    }
  }
}

function exchangeStages(
  slots: readonly PipelineSlot[],
  allStages: ReadonlyMap<string, PipelineStages>,
): void {
  for (const slot of slots) slot.stages = allStages.get(slot.id) ?? slot.stages;
  openGates(slots);
}

/** Lets waiting requests and batches pass. */
export function openGates(slots: readonly PipelineSlot[]): void {
  for (const slot of slots) {
    slot.gate = undefined;
    gates.get(slot)?.();
    gates.delete(slot);
  }
}

export function pipelineSlotsOf(build: Build): PipelineSlot[] {
  return [...build.units.values()].flatMap(({ slots }) => slots);
}

async function stopLeaving(
  { running, next, logger }: ExchangeOptions,
  leaving: readonly Unit[],
  deadline: Deadline,
): Promise<void> {
  const stop = (unit: Unit) => stopUnit(unit, deadline, logger);
  const changed = pipelineSlotsOf(running).filter(
    (slot) => next.allStages.get(slot.id) !== slot.stages,
  );
  const connectors = leaving.filter(({ node }) => node.kind === 'connector').toReversed();
  // A connector finishes its deliveries before it stops: its slots stay open until then.
  const fedByLeaving = new Set(connectors.flatMap(({ slots }) => slots.map(({ id }) => id)));
  const closing = changed.filter(({ id }) => next.allStages.has(id));

  const orphaned = leaving.filter(
    (unit) => isReceiver(unit) && unit.slots.every(({ id }) => !next.allStages.has(id)),
  );
  await Promise.all(orphaned.map(stop));
  await closeGates(
    closing.filter(({ id }) => !fedByLeaving.has(id)),
    deadline,
  );
  for (const unit of connectors) await stop(unit);
  await closeGates(
    closing.filter(({ id }) => fedByLeaving.has(id)),
    deadline,
  );
  for (const kind of ['processor', 'exporter'] as const) {
    await Promise.all(leaving.filter(({ node }) => node.kind === kind).map(stop));
  }
  const extensions = leaving.filter(({ node }) => node.kind === 'extension');
  for (const unit of extensions.toReversed()) await stop(unit);
}

/** The functions that open closed gates. */
const gates = new WeakMap<PipelineSlot, () => void>();

async function closeGates(slots: readonly PipelineSlot[], deadline: Deadline): Promise<void> {
  for (const slot of slots) {
    if (slot.gate !== undefined) continue;
    const { promise, resolve } = Promise.withResolvers<void>();
    slot.gate = promise;
    gates.set(slot, resolve);
  }
  const allStages = new Set(slots.map(({ stages }) => stages));
  await Promise.race([Promise.all([...allStages].map(drained)), deadline.passed]);
}

function isReceiver({ node }: Unit): boolean {
  return node.kind === 'receiver';
}
