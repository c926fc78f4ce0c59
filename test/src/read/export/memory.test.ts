import { setImmediate } from 'node:timers/promises';
import t from 'tap';
import type { Page, StoredObservation, TraceStore } from '../../../../src/store/store.ts';
import { collectGarbage } from '../../../../src/thread/idle-memory.ts';
import { anObservation, aTrace } from '../../../helper/fake-traces.ts';
import { exporting } from './rig.ts';

const TRACES = 400;
const OBSERVATIONS = 500;
const MIB = 1_048_576;

/** 200,000 observations, which are made when they are read. */
const traces: Partial<TraceStore> = {
  async listTraces(_projectId, { limit, cursor = '0' }) {
    const first = Number(cursor);
    const end = Math.min(TRACES, first + limit);
    const items = Array.from({ length: end - first }, (_, i) =>
      aTrace({ id: `trace-${first + i}`, observationCount: OBSERVATIONS }),
    );
    const cursorAfter = (item: number): string => String(first + item + 1);
    const nextCursor = end === TRACES ? null : String(end);
    return { items, nextCursor, cursorAfter, searchedTo: null, spentMs: 1 };
  },
  async listObservations(_projectId, traceId): Promise<Page<StoredObservation>> {
    const items = Array.from({ length: OBSERVATIONS }, (_, i) =>
      anObservation({ traceId, id: `o-${i}`, name: 'x'.repeat(500) }),
    );
    return { items, nextCursor: null, cursorAfter: String };
  },
};

t.test('the memory of an export does not grow with its rows', async (t) => {
  const { open, listeners } = await exporting(t, {}, { traces });
  for (const format of ['jsonl', 'csv', 'parquet']) {
    const answer = await open({ of: 'observations', format });
    let bytes = 0;
    let sample = 0;
    let peak = 0;
    let held = 0;
    const before = await inUse();
    for await (const chunk of answer) {
      bytes += (chunk as Buffer).length;
      held = Math.max(held, listeners.reads.heldBytes);
      if (bytes < sample) continue;
      sample = bytes + 16 * MIB;
      peak = Math.max(peak, (await inUse()) - before);
    }
    t.equal(answer.trailers['tracectl-export-rows'], String(TRACES * OBSERVATIONS), format);
    t.ok(peak < 24 * MIB, `${format}: ${peak} bytes of memory for ${bytes} bytes`);
    t.ok(held <= 33 * MIB, `${format}: ${held} bytes are reserved`);
    if (format !== 'parquet') t.ok(bytes > 100 * MIB, `${format}: ${bytes} bytes`);
  }
});

/** V8 frees buffers beside the first collection: the second one waits for it. */
async function inUse(): Promise<number> {
  collectGarbage();
  await setImmediate();
  collectGarbage();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}
