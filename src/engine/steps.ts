import type { BatchProcessor, RequestProcessor } from '../component/component.ts';
import type { Batch, ReceivedBatch } from '../model/batch.ts';
import { itemsOf } from '../model/batch.ts';
import type { RequestContext } from '../model/request-context.ts';
import { takeDropped } from '../model/verbs.ts';
import type { ProcessorEdge } from './edges.ts';

/** A processor that decides on requests, behind its counted edge. */
export type RequestStep = { readonly processor: RequestProcessor; readonly edge: ProcessorEdge };

/** A processor that works on sealed batches or observations, behind its counted edge. */
export type BatchStep = { readonly processor: BatchProcessor; readonly edge: ProcessorEdge };

/** The reason that is counted for items that a processor left out of the batch that it made. */
const LEFT_OUT = 'left_out';

/**
 * Runs the processors that decide on a request, in order. Appends to `done` those that learn the outcome, also
 * if a later one throws.
 */
export async function decide(
  steps: readonly RequestStep[],
  batch: ReceivedBatch,
  request: RequestContext,
  done: RequestStep[],
): Promise<void> {
  for (const step of steps) {
    const { processor, edge } = step;
    if (processor.process === undefined) continue;
    edge.incoming(batch.items);
    const deciding = processor.process(batch, request);
    if (deciding instanceof Promise) await deciding;
    if (processor.settle !== undefined) done.push(step);
    edge.outgoing(batch.items);
    takeDropped(batch)?.forEach((items, reason) => {
      edge.dropped(items, reason);
    });
  }
}

/** Tells the outcome to processors that asked for it. */
export function settle(
  done: readonly RequestStep[],
  batch: ReceivedBatch,
  outcome: 'durable' | 'failed',
  request: RequestContext,
): void {
  for (const { processor, edge } of done) {
    try {
      processor.settle?.(batch, outcome, request);
    } catch (error) {
      edge.fault(error);
    }
  }
}

/** Runs the processors of sealed data, in order. `again`: a retry, of which no item is counted. */
export async function transform(
  steps: readonly BatchStep[],
  given: Batch,
  again: boolean,
): Promise<Batch> {
  let batch = given;
  for (const { processor, edge } of steps) {
    const incoming = itemsOf(batch);
    const failedBefore = failuresOf(batch);
    if (!again) edge.incoming(incoming);
    const result = processor.process(batch, again);
    batch = result instanceof Promise ? await result : result;
    if (again) continue;
    const outgoing = itemsOf(batch);
    edge.outgoing(outgoing);
    // The queue sets items aside that could not be normalized: they are not dropped.
    const left = incoming - outgoing - (failuresOf(batch) - failedBefore);
    if (left > 0) edge.dropped(left, LEFT_OUT);
  }
  return batch;
}

function failuresOf(batch: Batch): number {
  return batch.kind === 'observations' ? (batch.failures?.length ?? 0) : 0;
}
