import type { ItemFailure, ObservationBatch } from '../../src/model/batch.ts';
import { PermanentError } from '../../src/model/errors.ts';
import type { TraceStore } from '../../src/store/store.ts';

/** Writes of one batch at the most: where everything is refused, nobody tries each row. */
const MOST_WRITES = 1000;

/**
 * Writes a batch. Where the store refuses its data, halves of it are written by themselves, and halves of
 * them, until what is refused stands alone. Resolves with the items that are refused, while all others are
 * stored. Rejects where all are, or where something else fails: writing again changes nothing of what is there.
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
    const error = await refusalOf(traces, { ...batch, observations: part });
    if (error === undefined) continue;
    last = error;
    const middle = (from + to) >> 1;
    // The first half comes first, so that what is refused is told in its order.
    if (middle > from && writes < MOST_WRITES) waiting.push([middle, to], [from, middle]);
    else {
      const { code, message } = error;
      failures.push(...part.map(({ index }) => ({ index, code, message })));
    }
  }
  if (last !== undefined && failures.length === observations.length) throw last;
  return failures;
}

/** What the store says against the data; undefined where it has it. */
async function refusalOf(
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
