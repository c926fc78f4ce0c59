import { isDeepStrictEqual } from 'node:util';
import type { Clock, Logger } from '../component/component.ts';
import type { Build } from './build.ts';
import type { ConnectorNode, Graph, Node, ReceiverNode } from './graph.ts';
import type { PipelineSlot, PipelineStages } from './pipeline.ts';
import { drained } from './pipeline.ts';
import type { Deadline, Unit } from './units.ts';
import { startDeadline, startUnit, stopUnit } from './units.ts';

/**
 * Components of the running graph that can go on in the next one: declared alike, standing in the same
 * place, and with everything they depend on going on too.
 */
export function chooseKept(running: Build, next: Graph): Map<string, Unit> {
  const nodes = new Map(allNodes(next).map((node) => [node.key, node]));
  const kept = new Map<string, Unit>();
  for (const [key, unit] of running.units) {
    const node = nodes.get(key);
    if (node === undefined || unit.state !== 'started') continue;
    if (isAlike(unit.node, node) && standsAlike(running.graph, next, node)) kept.set(key, unit);
  }
  dropDependents(kept);
  return kept;
}

/** Takes out, until nothing changes, whatever depends on something that is not in. */
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

function isAlike(a: Node, b: Node): boolean {
  return (
    a.declared.factory === b.declared.factory &&
    isDeepStrictEqual(a.declared.config, b.declared.config)
  );
}

function standsAlike(running: Graph, next: Graph, node: Node): boolean {
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
  /** Milliseconds that what leaves may take to stop. */
  readonly timeout: number;
};

/**
 * Puts the next graph in the place of the running one. Whoever sends in the meantime waits at a gate,
 * so that no request is refused for a reload.
 *
 *   receivers of removed pipelines stop ─▶ gates close ─▶ what leaves stops, upstream first
 *     ─▶ what is new starts ─▶ slots lead into the new allStages ─▶ gates open ─▶ old receivers stop
 *
 * Rejects with the `ComponentError` of what could not start: then everything new is stopped again and the
 * gates are still closed. An exchange back to the former graph opens them.
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
    lead(pipelineSlotsOf(running), next.allStages);
    const receivers = leaving.filter(isReceiver);
    await Promise.all(receivers.map((unit) => stopUnit(unit, deadline, logger)));
  } finally {
    deadline.cancel();
  }
}

/** Starts components in order; when one fails, those that were started are stopped again. */
export async function startAll(
  units: readonly Unit[],
  deadline: Deadline,
  logger: Logger,
): Promise<void> {
  for (const [i, unit] of units.entries()) {
    try {
      await startUnit(unit);
    } catch (error) {
      // The one that failed may hold half of what it opens, and the rest was created: all are stopped.
      for (const each of [...units.slice(0, i + 1).toReversed(), ...units.slice(i + 1)]) {
        await stopUnit(each, deadline, logger);
      }
      throw error;
    }
  }
}

function lead(
  slots: readonly PipelineSlot[],
  allStages: ReadonlyMap<string, PipelineStages>,
): void {
  for (const slot of slots) slot.stages = allStages.get(slot.id) ?? slot.stages;
  openGates(slots);
}

/** Lets through whoever waits. */
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
  // A connector that stops finishes what it delivers first: its slots stay open until then.
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

/** How to open the gate of a slot. */
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
