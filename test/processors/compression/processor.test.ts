import { randomBytes } from 'node:crypto';
import t from 'tap';
import { config } from '../../../processors/compression/config.ts';
import { createProcessor } from '../../../processors/compression/processor.ts';
import type { ReceivedBatch } from '../../../src/model/batch.ts';
import { Refusal } from '../../../src/model/errors.ts';
import { observe } from '../../../src/model/formats.ts';
import { inflateSync } from '../../../src/model/inflate.ts';
import { requestContext } from '../../../src/model/request-context.ts';
import { seal } from '../../../src/model/seal.ts';
import { drop, mask, reject } from '../../../src/model/verbs.ts';
import { nativeBatch, nativeEvent, rawBatch, received } from '../../helper/batches.ts';
import { encodeRequest } from '../../helper/otlp-proto.ts';

const MIN_BYTES = 16 * 1024;

async function processed(batch: ReceivedBatch, given: object = {}): Promise<ReceivedBatch> {
  const processor = createProcessor(config.parse(given));
  await processor.process?.(batch, requestContext());
  return batch;
}

/** A batch of two events whose body has so many bytes. */
function batchOf(bytes: number): ReceivedBatch {
  const events = (inputs: string) => [nativeEvent({ inputs }), nativeEvent()];
  const rest = nativeBatch(events('')).body.length;
  return received(nativeBatch(events('lorem ipsum '.repeat(bytes).slice(0, bytes - rest))));
}

function inflated({ body, encoding }: Pick<ReceivedBatch, 'body' | 'encoding'>): Buffer {
  return inflateSync(body, encoding, Number.MAX_SAFE_INTEGER);
}

t.test('compresses a body from min_bytes on', async (t) => {
  for (const [bytes, encoding] of [
    [MIN_BYTES - 1, 'identity'],
    [MIN_BYTES, 'zstd'],
  ] as const) {
    const batch = batchOf(bytes);
    const { body } = batch;
    t.equal(body.length, bytes);
    await processed(batch);
    t.equal(batch.encoding, encoding, `${bytes}`);
    t.same(inflated(batch), body);
  }
  const small = await processed(batchOf(2048), { min_bytes: '2KiB' });
  t.equal(small.encoding, 'zstd');
});

t.test('compresses a large body in a thread, and reserves its memory', async (t) => {
  for (const bytes of [64 * 1024, 64 * 1024 + 1]) {
    const batch = batchOf(bytes);
    const { body } = batch;
    let reserved = 0;
    const request = requestContext({
      reserve: (more) => {
        reserved += more;
      },
    });
    const running = createProcessor(config.parse({})).process?.(batch, request);
    t.equal(running instanceof Promise, bytes > 64 * 1024);
    await running;
    t.equal(batch.encoding, 'zstd');
    t.ok(batch.body.length < bytes / 10);
    t.equal(reserved, batch.body.length);
    t.equal(batch.body.buffer.byteLength, batch.body.length, 'it owns its memory');
    t.same(inflated(batch), body);
  }
});

t.test('refuses the request if there is no memory for the compressed body', async (t) => {
  const request = requestContext({
    reserve: () => {
      throw new Refusal('body_too_large', 'no room');
    },
  });
  for (const bytes of [MIN_BYTES, 100 * 1024]) {
    const batch = batchOf(bytes);
    const process = async () => createProcessor(config.parse({})).process?.(batch, request);
    await t.rejects(process(), { code: 'body_too_large' });
    t.equal(batch.encoding, 'identity');
  }
});

t.test('leaves a body that does not become smaller', async (t) => {
  const bytesValue = randomBytes(MIN_BYTES).toString('base64');
  const body = encodeRequest({
    resourceSpans: [
      {
        scopeSpans: [
          {
            spans: [
              {
                ...{ traceId: 'a'.repeat(32), spanId: 'b'.repeat(16), name: 'image' },
                attributes: [{ key: 'bytes', value: { bytesValue } }],
              },
            ],
          },
        ],
      },
    ],
  });
  const batch = await processed(received(rawBatch('otlp_proto', body, 1)));
  t.equal(batch.encoding, 'identity');
  t.equal(batch.body, body);
});

t.test('leaves a body that was sent compressed', async (t) => {
  const { body } = batchOf(MIN_BYTES * 2);
  const sent: ReceivedBatch = { ...batchOf(MIN_BYTES * 2), body, encoding: 'gzip' };
  await processed(sent);
  t.equal(sent.encoding, 'gzip');
  t.equal(sent.body, body);
});

t.test('leaves a body that is cut when it is sealed', async (t) => {
  for (const close of [
    (batch: ReceivedBatch) => reject(batch, 1, 'invalid_event', 'is wrong'),
    (batch: ReceivedBatch) => drop(batch, 1, 'filtered'),
  ]) {
    const before = batchOf(MIN_BYTES * 2);
    close(before);
    t.equal((await processed(before)).encoding, 'identity');

    const after = await processed(batchOf(MIN_BYTES * 2));
    close(after);
    const sealed = seal(after, requestContext());
    t.equal(sealed.encoding, 'identity');
    t.equal(observe(sealed).length, 1);
  }
});

t.test('an edit behind it stores the edited body uncompressed', async (t) => {
  const batch = await processed(batchOf(MIN_BYTES));
  t.equal(batch.encoding, 'zstd');
  const start = batch.index.bytes.indexOf('lorem');
  mask(batch, [{ item: 0, start, end: start + 5 }]);
  t.equal(batch.encoding, 'identity');
  t.match(batch.body.toString(), '***** ipsum');
});

t.test(
  'the sealed batch has the compressed body, and the items and usage of the sent one',
  async (t) => {
    const plain = seal(batchOf(MIN_BYTES), requestContext());
    const sealed = seal(await processed(batchOf(MIN_BYTES)), requestContext());
    t.equal(sealed.encoding, 'zstd');
    t.same(sealed.usage, plain.usage);
    t.equal(sealed.items, plain.items);
    const stored = { ...sealed };
    t.equal(observe(stored).length, 2, 'without the index of the request');
  },
);

t.test('refuses a level that zstd does not have here', async (t) => {
  for (const level of [0, 10, 1.5]) t.throws(() => config.parse({ level }));
  for (const level of [1, 9])
    t.equal((await processed(batchOf(MIN_BYTES), { level })).encoding, 'zstd');
});
