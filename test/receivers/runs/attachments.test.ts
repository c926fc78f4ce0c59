import { hash, randomBytes } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import type { Test } from 'tap';
import t from 'tap';
import { config as runsConfig } from '../../../receivers/runs/config.ts';
import { createReceiver } from '../../../receivers/runs/receiver.ts';
import { offer } from '../../../src/component/capability.ts';
import { LISTENERS } from '../../../src/http/listener.ts';
import { rawOf } from '../../../src/model/batch.ts';
import { Refusal, RepeatedRequest, RetryableError, StoreError } from '../../../src/model/errors.ts';
import { observe } from '../../../src/model/formats.ts';
import { reject } from '../../../src/model/verbs.ts';
import type { NewAttachment } from '../../../src/store/attachments.ts';
import type { Store } from '../../../src/store/store.ts';
import { STORE } from '../../../src/store/store.ts';
import { testListeners } from '../../helper/http.ts';
import { fakeHost, testSettings } from '../../helper/settings.ts';
import { acceptInto, createSink, sinkPipeline } from '../../helper/sink.ts';

type Put = { readonly batch: string; readonly contents: readonly NewAttachment[] };

/** A receiver in front of a store that notes what it is asked for. */
async function receiving(t: Test, config: object = {}) {
  const puts: Put[] = [];
  const released: string[] = [];
  const calls: string[] = [];
  let failure: Error | undefined;
  const attachments = {
    async put(_project: string, batch: string, contents: readonly NewAttachment[]) {
      calls.push('put');
      if (failure !== undefined) throw failure;
      // The memory of the request is used again.
      const copies = contents.map((one) => ({ ...one, content: Buffer.from(one.content) }));
      puts.push({ batch, contents: copies });
    },
    async release(batch: string) {
      released.push(batch);
    },
  };
  const listeners = testListeners();
  const host = fakeHost({ services: [offer(LISTENERS, listeners)] });
  const sink = createSink();
  sink.behave(() => {
    calls.push('consume');
  });
  const settings = testSettings('receiver', 'runs', { host, logger: listeners.logger });
  const store: Partial<Record<keyof Store, unknown>> = { attachments };
  const pipeline = sinkPipeline(sink, {
    offers: [offer(STORE, store as Store)],
    accept: acceptInto(sink, (batch) => {
      if (batch.items > 1) reject(batch, 0, 'invalid_event', 'is the first of several');
    }),
  });
  const written = { endpoint: '127.0.0.1:0', ...config };
  const receiver = createReceiver(settings, runsConfig.parse(written), pipeline);
  await receiver.start();
  t.teardown(async () => {
    await receiver.shutdown(AbortSignal.abort());
    await listeners.close();
  });
  const url = `${listeners.served()[0]?.url}/api/v1/runs/multipart`;
  const send = async (parts: Readonly<Record<string, string | Buffer>>, gzip = false) => {
    const pieces = Object.entries(parts).flatMap(([name, content]) => [
      Buffer.from(`--b\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n`),
      Buffer.from(content),
      Buffer.from('\r\n'),
    ]);
    const body = Buffer.concat([...pieces, Buffer.from('--b--\r\n')]);
    const headers = { 'content-type': 'multipart/form-data; boundary=b' };
    const answer = await fetch(url, {
      method: 'POST',
      headers: gzip ? { ...headers, 'content-encoding': 'gzip' } : headers,
      body: gzip ? gzipSync(body) : body,
    });
    return answer.status;
  };
  const last = () => {
    const batch = sink.batches.at(-1);
    if (batch === undefined) throw new Error('nothing arrived');
    return rawOf(batch);
  };
  const fail = (error: Error) => {
    failure = error;
  };
  return { send, sink, last, puts, released, calls, fail, settings };
}

const RUN = { 'post.a': '{"id":"a"}' };

t.test('attachments are stored before their batch, whatever its size', async (t) => {
  const { send, last, puts, calls } = await receiving(t);
  for (const [size, gzip] of [
    [10, false],
    [10, true],
    [600_000, false],
    [600_000, true],
  ] as const) {
    const content = randomBytes(size);
    const parts = { ...RUN, 'attachment.a.f': content, 'attachment.a.g': content };
    t.equal(await send(parts, gzip), 202);
    t.same(calls.splice(0), ['put', 'consume']);
    const put = puts.at(-1);
    t.equal(put?.batch, last().id);
    const sha256 = hash('sha256', content, 'buffer');
    t.equal(put?.contents.length, 2);
    for (const one of put?.contents ?? []) {
      t.ok(one.sha256.equals(sha256) && one.content.equals(content), `${size} bytes`);
    }
    const named = { bytes: size, sha256: sha256.toString('hex') };
    t.match(observe(last())[0]?.details?.attachments, [
      { name: 'f', ...named },
      { name: 'g', ...named },
    ]);
  }
});

t.test('the attachments of rejected runs are not stored', async (t) => {
  const { send, puts, calls } = await receiving(t);
  const both = { ...RUN, 'post.b': '{"id":"b"}' };
  t.equal(await send({ ...both, 'attachment.a.f': 'first', 'attachment.b.f': 'second' }), 202);
  t.match(puts, [{ contents: [{ content: Buffer.from('second') }] }]);
  t.equal(puts[0]?.contents.length, 1);
  calls.splice(0);
  t.equal(await send({ ...both, 'attachment.a.f': 'first' }), 202);
  t.same(calls, ['consume'], 'nothing to store');
});

t.test('a request whose attachments cannot be stored is refused', async (t) => {
  const { send, fail, sink, puts } = await receiving(t);
  const parts = { ...RUN, 'attachment.a.f': 'x' };
  fail(new RetryableError('disk_full', 'the disk is full'));
  t.equal(await send(parts), 503);
  fail(new StoreError('unknown_project', 'the project was deleted'));
  t.equal(await send(parts), 401);
  t.same([sink.batches, puts], [[], []]);
});

t.test('a batch that is certainly not accepted holds its attachments no longer', async (t) => {
  const { send, sink, puts, released } = await receiving(t);
  const parts = { ...RUN, 'attachment.a.f': 'x' };
  const answer = { status: 202, contentType: 'application/json', body: Buffer.from('{}') };
  for (const [error, status] of [
    [new RepeatedRequest(answer), 202],
    [new Refusal('unauthorized', 'The project was deleted.'), 401],
  ] as const) {
    sink.behave(() => {
      throw error;
    });
    t.equal(await send(parts), status);
    t.same(released, [puts.at(-1)?.batch]);
    released.splice(0);
  }
  sink.behave(() => {
    throw new RetryableError('storage_failed', 'the answer of the commit was lost');
  });
  t.equal(await send(parts), 503);
  t.same(released, [], 'the store may have the batch');
});

t.test('limits are those of the configuration', async (t) => {
  const { send, last, puts, settings } = await receiving(t, {
    attachments: { max_bytes: 4, per_run: 2, per_request: 3, request_bytes: 10 },
  });
  const file = (name: string, bytes: number) => ({
    [`attachment.a.${name}`]: 'x'.repeat(bytes),
  });
  t.equal(await send({ ...RUN, ...file('f', 4), ...file('g', 5), ...file('h', 1) }), 202);
  t.match(observe(last()), [
    { details: { attachments: [{ name: 'f' }], ignored: [{ path: 'attachments[1]' }, {}] } },
  ]);
  t.equal(puts[0]?.contents.length, 1);
  const name = 'tracectl_runs_left_out_parts_total';
  t.equal(settings.metrics.value(name, { kind: 'attachment' }), 2);
});
