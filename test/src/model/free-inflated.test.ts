import { gzipSync } from 'node:zlib';
import t from 'tap';
import type { SealedBatch } from '../../../src/model/batch.ts';
import { isFreed } from '../../../src/model/batch.ts';
import {
  endRequest,
  freeBatch,
  freeInflated,
  holdIndex,
  indexOf,
  knownIndexOf,
  observe,
  shareBatch,
  smallIndexOf,
  withoutIndex,
} from '../../../src/model/formats.ts';
import { bodyCache } from '../../../src/queue/body-cache.ts';
import { recordOf } from '../../../src/queue/record.ts';
import { otlpBatch } from '../../helper/batches.ts';

function compressed(): SealedBatch {
  const plain = otlpBatch([
    { name: 'one', attributes: { text: 'x'.repeat(4000) } },
    { name: 'two' },
  ]);
  return { ...plain, body: gzipSync(plain.body), encoding: 'gzip' };
}

const names = (batch: SealedBatch) => observe(batch).map(({ name }) => name);

t.test('frees the memory of the inflated form, and a later reader inflates again', async (t) => {
  const batch = compressed();
  const { bytes } = indexOf(batch);
  freeInflated(batch);
  t.equal(bytes.length, 0, 'freed');
  t.equal(knownIndexOf(batch), undefined);
  t.strictSame(names(batch), ['one', 'two']);
  freeInflated(batch);
  freeInflated(batch);
  t.strictSame(names(batch), ['one', 'two'], 'freed twice');
});

t.test('keeps the inflated form of a batch that is held', async (t) => {
  const batch = compressed();
  const { bytes } = indexOf(batch);
  const { length } = bytes;
  holdIndex(batch);
  freeInflated(batch);
  t.equal(bytes.length, length);
  t.equal(knownIndexOf(batch)?.bytes, bytes);
});

t.test('keeps the inflated form of a batch that a queue has in its cache', async (t) => {
  const [first, second] = [compressed(), compressed()];
  const size = first.body.length + indexOf(first).bytes.length;
  const cache = bodyCache(size);
  cache.put(1, first);
  indexOf(second);
  cache.put(2, second);
  t.equal(cache.get(2), undefined, 'the second one does not fit');
  freeInflated(first);
  freeInflated(second);
  t.not(knownIndexOf(first), undefined);
  t.equal(knownIndexOf(second), undefined);
  cache.delete(1);
  cache.put(3, compressed());
  t.not(cache.get(3), undefined, 'the room is free again');
});

t.test('counts a batch in the cache of a queue by the size that it had at first', async (t) => {
  const plain = compressed();
  const cache = bodyCache(plain.body.length + 1);
  cache.put(1, plain);
  indexOf(plain);
  cache.delete(1);
  cache.put(2, compressed());
  cache.put(3, compressed());
  t.not(cache.get(2), undefined);
  t.equal(cache.get(3), undefined, 'the cache has room for one');
});

t.test('keeps a body that arrived uncompressed', async (t) => {
  const batch = otlpBatch([{ name: 'one' }]);
  const { bytes } = indexOf(batch);
  freeInflated(batch);
  t.equal(knownIndexOf(batch)?.bytes, bytes);
  t.ok(batch.body.length > 0);
  t.strictSame(names(batch), ['one']);
});

t.test('frees nothing of a batch without an index', async (t) => {
  const batch = compressed();
  freeInflated(batch);
  t.strictSame(names(batch), ['one', 'two']);
});

t.test('frees a delivered batch with its inflated form', async (t) => {
  const compressedBatch = compressed();
  const batch = { ...compressedBatch, body: owned(compressedBatch.body) };
  const { bytes } = indexOf(batch);
  freeBatch(batch);
  t.equal(isFreed(batch), false, 'its request may read it');
  endRequest(batch);
  freeBatch(batch);
  t.equal(isFreed(batch), true);
  t.equal(bytes.length, 0);
  t.equal(knownIndexOf(batch), undefined);
  freeBatch(batch);
  const message = `the bytes of batch ${batch.id} were freed`;
  t.throws(() => indexOf(batch), { message });
  t.throws(() => smallIndexOf(batch, 1), { message });
  t.throws(() => recordOf(batch), { message });
});

t.test('frees a copy without an index when the batch itself may be freed', async (t) => {
  const owning = (): SealedBatch => {
    const batch = compressed();
    return { ...batch, body: owned(batch.body) };
  };
  const batch = owning();
  indexOf(batch);
  const copy = withoutIndex(withoutIndex(batch));
  t.equal(knownIndexOf(copy), undefined);
  freeBatch(copy);
  t.equal(isFreed(batch), false, 'its request may read it');
  endRequest(batch);
  freeBatch(copy);
  t.equal(isFreed(batch), true);
  for (const shares of [(each: SealedBatch) => each, withoutIndex]) {
    const elsewhere = owning();
    endRequest(elsewhere);
    const other = withoutIndex(elsewhere);
    shareBatch(shares === withoutIndex ? other : elsewhere);
    freeBatch(other);
    t.equal(isFreed(elsewhere), false, 'another component has it');
  }
});

t.test('keeps the bytes of a delivered batch that are a part of a larger memory', async (t) => {
  const { body } = otlpBatch([{ name: 'one' }]);
  const memory = Buffer.concat([owned(body), Buffer.from('next')]);
  const own = Buffer.from(new Uint8Array(memory).buffer);
  const batch = { ...otlpBatch([{ name: 'one' }]), body: own.subarray(0, body.length) };
  endRequest(batch);
  freeBatch(batch);
  t.equal(isFreed(batch), false);
  t.equal(own.toString('latin1', body.length), 'next');
  t.strictSame(names(batch), ['one']);
});

function owned(bytes: Buffer): Buffer {
  return Buffer.from(new Uint8Array(bytes).buffer);
}
