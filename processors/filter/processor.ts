import type { RequestProcessor, Settings } from '../../src/component/component.ts';
import { inTurns } from '../../src/component/turns.ts';
import type { ReceivedBatch } from '../../src/model/batch.ts';
import { reparent } from '../../src/model/formats.ts';
import { drop, isOpen, replace } from '../../src/model/verbs.ts';
import { decisionOf, type Facts } from './conditions.ts';
import type { FilterConfig } from './config.ts';
import { type RequestObservation, RequestObservations } from './observations.ts';

/**
 * Drops observations by their facts, and attaches the children of a dropped observation to its nearest kept
 * ancestor within the request. A large batch is filtered in turns, which end with the request.
 *
 *   items ─▶ observations (items with one id) ─▶ decide ─┬─ drop: every item of the observation
 *                                                        └─ keep: parent dropped? ─▶ nearest kept ancestor
 */
export function createProcessor(
  { clock }: Pick<Settings, 'clock'>,
  config: FilterConfig,
): RequestProcessor {
  const keeps = decisionOf(config);
  return {
    async start() {},
    async shutdown() {},
    process(batch, { signal }) {
      return inTurns(filtering(batch, keeps), clock, signal);
    },
  };
}

/** The label of the items in `tracectl_processor_dropped_items_total`. */
const REASON = 'filtered';

/** Yields after each step of bounded work. */
function* filtering(batch: ReceivedBatch, keeps: (facts: Facts) => boolean): Generator<void> {
  const observations = new RequestObservations();
  for (let item = 0; item < batch.requestItems; item++) {
    if (isOpen(batch, item)) observations.add(batch, item);
    yield;
  }
  for (const observation of observations.all) {
    observation.isDropped = !keeps(observation);
    yield;
  }
  for (const observation of observations.all) {
    if (observation.isDropped) {
      for (const { position } of observation.items) drop(batch, position, REASON);
    } else {
      attach(batch, observation, observations);
    }
    yield;
  }
}

/** Attaches an observation to its nearest kept ancestor if its parent is dropped. */
function attach(
  batch: ReceivedBatch,
  observation: RequestObservation,
  observations: RequestObservations,
): void {
  for (const { position, head } of observation.items) {
    const { parentId: originalParentId } = head;
    if (originalParentId === null) continue;
    const parent = observations.find(originalParentId, observation.traceId);
    if (parent?.isDropped !== true) continue;
    const parentId = keptAncestor(parent, observations);
    const { traceId } = parent;
    const splices = reparent(batch.index, position, { parentId, originalParentId, traceId });
    replace(
      batch,
      splices.map((splice) => ({ item: position, ...splice })),
    );
  }
}

/**
 * The id of the nearest ancestor that is not dropped, which may be outside the request. Null if there is none, or
 * if the parent ids form a cycle of dropped observations. Every observation on the way keeps the result, so all
 * searches of a request together visit each observation once.
 */
function keptAncestor(
  dropped: RequestObservation,
  observations: RequestObservations,
): string | null {
  const path: RequestObservation[] = [];
  let current = dropped;
  while (current.keptAncestor === undefined) {
    // Null ends a cycle, and is replaced below otherwise.
    current.keptAncestor = null;
    path.push(current);
    const { parentId, traceId } = current;
    const parent = parentId === null ? undefined : observations.find(parentId, traceId);
    if (parent?.isDropped === true) {
      current = parent;
      continue;
    }
    current.keptAncestor = parentId;
  }
  for (const each of path) each.keptAncestor = current.keptAncestor;
  return current.keptAncestor;
}
