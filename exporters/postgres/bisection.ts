import type { ItemFailure, ObservationBatch } from '../../src/model/batch.ts';
import { PermanentError } from '../../src/model/errors.ts';
import type { TraceStore } from '../../src/store/store.ts';

/** Writes of one batch: if the store rejects every item, not every one is tried on its own. */
const MAX_WRITES = 1000;

/**
 * Writes a batch. If the store rejects its data, halves of it are written, and halves of those, until only the rejected
 * items remain. Resolves with the rejected items; all others are stored. Rejects if every item is rejected, or for any
 * other error. Writing stored items again changes nothing.
 */
export async function writeAllButPoison(
  traces: Pick<TraceStore, 'write'>,
  batch: ObservationBatch,
): Promise<readonly ItemFailure[]> {
  const { observations } = batch;
  const failures: ItemFailure[] = [];
  const waiting: [from: number, to: number][] = [[0, observations.length]];
  let last: PermanentError | undefined;
  for (let writes = 0; ; writes++) {
    const [from, to] = waiting.pop() ?? [0, 0];
    if (from === to) break;
    const part = observations.slice(from, to);
    const error = await dataErrorOf(traces, { ...batch, observations: part });
    if (error === undefined) continue;
    last = error;
    const middle = (from + to) >> 1;
    // The first half is on top, so that the rejected items are in their order.
    if (middle > from && writes < MAX_WRITES) waiting.push([middle, to], [from, middle]);
    else {
      const { code, message } = error;
      failures.push(...part.map(({ index }) => ({ index, code, message })));
    }
  }
  if (last !== undefined && failures.length === observations.length) throw last;
  return failures;
}

/** The store's error about the data; undefined if it stored them. */
async function dataErrorOf(
  traces: Pick<TraceStore, 'write'>,
  batch: ObservationBatch,
): Promise<PermanentError | undefined> {
  try {
    await traces.write(batch);
    return undefined;
  } catch (error) {
    if (error instanceof PermanentError && error.code === 'storage_refused') return error;
    throw error;
  }
}
