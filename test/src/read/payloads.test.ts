import type { Test } from 'tap';
import t from 'tap';
import { createScanner } from '../../../src/http/scan-pool.ts';
import type { SealedBatch } from '../../../src/model/batch.ts';
import { createBatchCache } from '../../../src/read/batch-cache.ts';
import { readPayloads } from '../../../src/read/payloads.ts';
import { nativeEvent, rawBatch } from '../../helper/batches.ts';
import { anObservation } from '../../helper/fake-traces.ts';

const KIB = 1024;
const LARGE = 600 * KIB;

/** A store whose batches can be changed, and the calls that it gets. */
function payloadsOf(t: Test, batches: Map<string, SealedBatch>, cacheBytes = 4096 * KIB) {
  const loads: string[] = [];
  let looks = 0;
  const scanner = createScanner(cacheBytes);
  t.teardown(() => scanner.close());
  const cache = createBatchCache(cacheBytes);
  const traces = {
    async getBatches(projectId: string, ids: readonly string[]) {
      loads.push(...ids);
      return ids.flatMap((id) => batches.get(`${projectId}/${id}`) ?? []);
    },
    async batchStamps(projectId: string, ids: readonly string[]) {
      looks++;
      return new Map(
        ids.flatMap((id) => {
          const found = batches.get(`${projectId}/${id}`);
          return found === undefined ? [] : [[id, String(found.body.length)] as const];
        }),
      );
    },
  };
  let held = 0;
  const reservation = {
    held,
    grow(bytes: number) {
      held += bytes;
    },
    release() {},
  };
  const request = (projectId = 'p') =>
    readPayloads({ traces, projectId, scanner, reservation, cache });
  return { request, loads, cache, held: () => held, looks: () => looks };
}

const batchOf = (inputs: string) =>
  rawBatch('native', Buffer.from(JSON.stringify({ events: [nativeEvent({ inputs })] })), 1);

const pointingTo = (...ids: string[]) =>
  ids.map((batchId) => anObservation({ payload: { inputs: { batchId, position: 0 } } }));

for (const [size, length] of [
  ['small', 10],
  ['large', LARGE],
] as const) {
  t.test(`a ${size} batch is loaded once, for all requests of its project`, async (t) => {
    const text = 'x'.repeat(length);
    const batch = batchOf(text);
    const { id } = batch;
    const batches = new Map([[`p/${id}`, batch]]);
    const { request, loads, held } = payloadsOf(t, batches);
    const [observation] = pointingTo(id);
    if (observation === undefined) return;
    const read = async (project?: string) => (await request(project).read(observation)).inputs;
    t.equal(await read(), JSON.stringify(text));
    const before = held();
    t.equal(await read(), JSON.stringify(text));
    t.strictSame(loads, [id]);
    t.equal(held(), before, 'a batch that is kept needs no memory of the request');
    t.equal(await read('other'), undefined, 'not for another project');

    const rewritten = { ...batchOf('y'.repeat(length + 1)), id };
    batches.set(`p/${id}`, rewritten);
    t.equal(await read(), JSON.stringify('y'.repeat(length + 1)), 'the stored body has changed');
    t.strictSame(loads, [id, id]);

    batches.delete(`p/${id}`);
    t.equal(await read(), undefined, 'the batch has expired');
    t.equal(await request().batch(id), undefined);
  });
}

t.test('large batches are kept beside each other in the thread, up to its bytes', async (t) => {
  const batches = ['a', 'b', 'c'].map((text) => batchOf(text.repeat(LARGE)));
  const ids = batches.map(({ id }) => id);
  const stored = new Map(batches.map((batch) => [`p/${batch.id}`, batch]));
  const all = pointingTo(...ids);
  const readAll = async ({ request, loads }: ReturnType<typeof payloadsOf>) => {
    for (let i = 0; i < 2; i++) for (const one of all) await request().read(one);
    return loads.length;
  };
  t.equal(await readAll(payloadsOf(t, stored, 3 * (LARGE + 2 * KIB))), 3);
  t.equal(await readAll(payloadsOf(t, stored, 3 * LARGE)), 6, 'the third one evicts the first one');
});

t.test('small batches are kept up to the bytes of the cache', async (t) => {
  const batches = ['a', 'b'].map((text) => batchOf(text.repeat(10 * KIB)));
  const stored = new Map(batches.map((batch) => [`p/${batch.id}`, batch]));
  const all = pointingTo(...batches.map(({ id }) => id));
  const unbounded = payloadsOf(t, stored);
  for (const one of all) await unbounded.request().read(one);
  const { weight } = unbounded.cache;
  for (const [bytes, loads] of [
    [weight, 2],
    [weight - 1, 4],
  ] as const) {
    const bounded = payloadsOf(t, stored, bytes);
    for (let i = 0; i < 2; i++) for (const one of all) await bounded.request().read(one);
    t.equal(bounded.loads.length, loads, `${bytes} bytes`);
  }
});

t.test('a page looks up all of its batches at once', async (t) => {
  const batches = Array.from({ length: 5 }, (_, i) => batchOf(`text ${i}`));
  const stored = new Map(batches.map((batch) => [`p/${batch.id}`, batch]));
  const { request, looks } = payloadsOf(t, stored);
  const all = pointingTo(...batches.map(({ id }) => id), 'gone');
  const payloads = request();
  await payloads.prepare(all);
  for (const one of all) await payloads.read(one);
  t.equal(looks(), 2, 'and again only those that it did not find');
});
