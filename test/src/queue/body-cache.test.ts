import t from 'tap';
import { endRequest, freeBatch } from '../../../src/model/formats.ts';
import { bodyCache } from '../../../src/queue/body-cache.ts';
import { nativeBatch } from '../../helper/batches.ts';

const BATCH = nativeBatch(1);
const SIZE = BATCH.body.byteLength;

t.test('keeps batches up to its bytes, and evicts none for a further one', async (t) => {
  const cache = bodyCache(2 * SIZE);
  for (const seq of [1, 2, 3]) cache.put(seq, BATCH);
  t.same(
    [1, 2, 3].map((seq) => cache.get(seq) !== undefined),
    [true, true, false],
  );
});

t.test('has room again once a batch is deleted, and counts each deletion once', async (t) => {
  const cache = bodyCache(SIZE);
  cache.put(1, BATCH);
  cache.delete(1);
  cache.delete(1);
  t.equal(cache.get(1), undefined);
  cache.put(2, BATCH);
  cache.put(3, BATCH);
  t.ok(cache.get(2));
  t.equal(cache.get(3), undefined);
});

t.test('has a batch no more whose bytes were freed', async (t) => {
  const batch = { ...BATCH, body: Buffer.from(new Uint8Array(BATCH.body).buffer) };
  const cache = bodyCache(2 * SIZE);
  cache.put(1, batch);
  t.equal(cache.get(1), batch);
  endRequest(batch);
  freeBatch(batch);
  t.equal(cache.get(1), undefined);
});
