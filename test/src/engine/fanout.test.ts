import t from 'tap';
import { createSink, fanOut } from '../../../src/engine/fanout.ts';
import type { SealedBatch } from '../../../src/model/batch.ts';
import { isFreed } from '../../../src/model/batch.ts';
import { endRequest, freeBatch } from '../../../src/model/formats.ts';
import { nativeBatch } from '../../helper/batches.ts';
import { createSink as recordingSink } from '../../helper/sink.ts';

function sinks(count: number) {
  const edge = { begin: () => () => {}, sent() {}, failed() {} };
  return Array.from({ length: count }, (_, i) =>
    createSink(`sink/${i}`, { ...recordingSink(), async start() {}, async shutdown() {} }, edge),
  );
}

function owning(): SealedBatch {
  const batch = nativeBatch(1);
  return { ...batch, body: Buffer.from(new Uint8Array(batch.body).buffer) };
}

t.test('lets the only exporter of a batch free its bytes, and none of several', async (t) => {
  for (const [count, freed] of [
    [1, true],
    [2, false],
  ] as const) {
    const batch = owning();
    await fanOut(sinks(count), batch);
    endRequest(batch);
    freeBatch(batch);
    t.equal(isFreed(batch), freed, `${count} exporters`);
  }
});
