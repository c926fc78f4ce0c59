import type { BatchProcessor, RequestProcessor } from '../component/component.ts';
import type { Scanner } from '../http/scan-pool.ts';
import type { Batch, ReceivedBatch } from '../model/batch.ts';
import { itemsOf } from '../model/batch.ts';
import { Refusal } from '../model/errors.ts';
import { STORED_LIMITS } from '../model/formats.ts';
import type { RequestContext } from '../model/request-context.ts';
import { adopt, takeDropped, takeEdited, takeEditedBytes } from '../model/verbs.ts';
import type { ProcessorEdge } from './edges.ts';

/** A processor that decides on requests, behind its counted edge. */
export type RequestStep = { readonly processor: RequestProcessor; readonly edge: ProcessorEdge };

/** A processor that works on sealed batches or observations, behind its counted edge. */
export type BatchStep = { readonly processor: BatchProcessor; readonly edge: ProcessorEdge };

/** The reason that is counted for items that a processor left out of the batch that it made. */
const LEFT_OUT = 'left_out';

/** A received batch on its way through the processors that decide on it. */
export type Decision = {
  readonly batch: ReceivedBatch;
  readonly request: RequestContext;
  /** Scans what processors edited. */
  readonly scanner: Pick<Scanner, 'prepare'>;
  /** Steps that learn the outcome. */
  readonly settling: RequestStep[];
};

/** Runs the processors in order. After a throw, `settling` has those that processed the batch before. */
export async function decide(steps: readonly RequestStep[], decision: Decision): Promise<void> {
  const { batch, request, settling } = decision;
  for (const step of steps) {
    const { processor, edge } = step;
    if (processor.process === undefined) continue;
    edge.incoming(batch.items);
    const rejectedBefore = batch.rejections.length;
    const deciding = processor.process(batch, request);
    if (deciding instanceof Promise) await deciding;
    if (processor.settle !== undefined) settling.push(step);
    if (batch.changes !== undefined) {
      const applying = applyEdits(decision);
      if (applying !== undefined) await applying;
      countChanges(batch, rejectedBefore, edge);
    }
    edge.outgoing(batch.items);
  }
}

/** Goes on with the bytes that a processor edited; a large body is scanned in a thread. */
function applyEdits({ batch, request, scanner }: Decision): Promise<void> | undefined {
  const bytes = takeEditedBytes(batch);
  if (bytes === undefined) return undefined;
  if (bytes !== batch.index.bytes) request.reserve(bytes.length);
  try {
    const wanted = {
      ...STORED_LIMITS,
      format: batch.format,
      encoding: 'identity',
      judges: true,
      maxBytes: Number.MAX_SAFE_INTEGER,
    } as const;
    const scanned = scanner.prepare(bytes, wanted, batch.tenant.projectId);
    if (scanned instanceof Promise) {
      return scanned.then(({ index }) => adopt(batch, index), invalidEdit);
    }
    adopt(batch, scanned.index);
    return undefined;
  } catch (error) {
    return invalidEdit(error);
  }
}

/** The client sent a valid body, so it is answered 503, not 400. */
function invalidEdit(error: unknown): never {
  if (!(error instanceof Refusal)) throw error;
  throw new Error('a processor edited the batch into an invalid one', { cause: error });
}

function countChanges(batch: ReceivedBatch, rejectedBefore: number, edge: ProcessorEdge): void {
  for (const { code } of batch.rejections.slice(rejectedBefore)) edge.rejected(code);
  const edited = takeEdited(batch);
  if (edited > 0) edge.edited(edited);
  takeDropped(batch)?.forEach((items, reason) => {
    edge.dropped(items, reason);
  });
}

/** Tells the outcome to processors that asked for it. */
export function settle(
  { batch, request, settling }: Decision,
  outcome: 'durable' | 'failed',
): void {
  for (const { processor, edge } of settling) {
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
