import t from 'tap';
import type { Batch } from '../../../src/model/batch.ts';
import type { OtlpSpan } from '../../../src/model/otlp/span.ts';
import { nativeBatch } from '../../helper/batches.ts';
import { ACCEPTED } from '../../helper/otlp-server.ts';
import { advanceUntil, until } from '../../helper/until.ts';
import { deadLettersOf, finish, isEmpty, type Rig, rigOf, start } from './rig.ts';

/** OTLP reads an end of 0 as unset. */
function hasEnd(span: OtlpSpan | undefined): boolean {
  return Number(span?.endTimeUnixNano ?? 0) > 0;
}

function attributesOf(rig: Rig, at: number): Record<string, unknown> {
  const [span] = rig.server.requests[at]?.spans ?? [];
  return Object.fromEntries(
    (span?.attributes ?? []).map(({ key, value }) => [key, value?.stringValue]),
  );
}

t.test('sends an observation as a span', async (t) => {
  await t.test('once it has ended, with the fields of its start', async (t) => {
    const rig = await rigOf(t);
    const send = (batch: Batch) => rig.exporter.consume(batch);
    await send(nativeBatch([start('a', { name: 'first' })]));
    await send(nativeBatch([finish('b', { inputs: 1 })]));
    await rig.server.received(1);
    await send(nativeBatch([finish('a', { name: null })]));
    const requests = await rig.server.received(2);
    t.same(
      requests.map(({ spans }) => spans.length),
      [1, 1],
    );
    t.match(requests[1]?.spans, [{ name: 'first', endTimeUnixNano: '1768478399500000000' }]);
    t.match(attributesOf(rig, 1), {
      'input.value': '{"messages":[{"role":"user","content":"hello"}]}',
      'output.value': '{"content":"hi"}',
    });
    await until(() => isEmpty(rig));
  });

  await t.test('with the details of its start', async (t) => {
    const rig = await rigOf(t);
    const sent = { tags: ['beta'], provider: 'openai', environment: 'staging', release: '1' };
    await rig.exporter.consume(nativeBatch([start('a', { ...sent, outputs: null })]));
    await rig.exporter.consume(nativeBatch([finish('a', { inputs: null, release: '2' })]));
    await rig.server.received(1);
    const embedded = JSON.parse(String(attributesOf(rig, 0)['tracectl.observation']));
    t.match(embedded.details, { ...sent, release: '2' });
    t.match(embedded.details, { inputBytes: Number, outputBytes: Number });
  });

  await t.test(
    'exactly at open_span_timeout, without an end, if it has only started',
    async (t) => {
      const rig = await rigOf(t, { config: { open_span_timeout: '5m' } });
      await rig.exporter.consume(nativeBatch([start('a'), finish('b')]));
      const own = { exporter: 'otlphttp' };
      const { metrics } = rig.settings;
      await until(() => metrics.value('tracectl_otlphttp_sent_spans_total', own) === 1);
      t.equal(metrics.value('tracectl_otlphttp_open_spans', own), 1);
      t.notOk(isEmpty(rig), 'the entry stays in the queue');
      rig.clock.advance(299_999);
      t.equal(rig.server.requests.length, 1);
      rig.clock.advance(1);
      const requests = await rig.server.received(2);
      t.notOk(hasEnd(requests[1]?.spans[0]));
      await until(() => isEmpty(rig));
      t.same(await deadLettersOf(rig), []);
    },
  );

  await t.test('while held starts take no slot of num_consumers', async (t) => {
    const rig = await rigOf(t, { queue: { num_consumers: 1 } });
    for (let i = 0; i < 30; i++) await rig.exporter.consume(nativeBatch([start(`o${i}`)]));
    await rig.exporter.consume(nativeBatch([finish('other')]));
    await rig.server.received(1);
    for (let i = 0; i < 30; i++) await rig.exporter.consume(nativeBatch([finish(`o${i}`)]));
    await until(() => isEmpty(rig));
    t.equal(rig.server.requests.flatMap(({ spans }) => spans).length, 31);
  });

  await t.test('early if the queue runs short of room', async () => {
    const rig = await rigOf(t, { queue: { queue_size: 40 } });
    for (let i = 0; i < 200; i++) {
      await rig.exporter.consume(nativeBatch([start(`o${i}`)]));
      await advanceUntil(rig.clock, 10, () => (rig.queue().stats().branches[0]?.entries ?? 0) < 35);
    }
  });

  await t.test('without its finish if the destination refused the finish', async (t) => {
    const rig = await rigOf(t, { config: { open_span_timeout: '5m' } });
    await rig.exporter.consume(nativeBatch([start('a')]));
    rig.server.next({ status: 400 });
    await rig.exporter.consume(nativeBatch([finish('a')]));
    await until(async () => (await deadLettersOf(rig)).length === 1);
    rig.clock.advance(300_000);
    await rig.server.received(2);
    await until(() => isEmpty(rig));
    t.equal((await deadLettersOf(rig)).length, 1);
  });

  await t.test('at once without a queue', async (t) => {
    const rig = await rigOf(t, { queue: false, config: { encoding: 'json' } });
    await rig.exporter.consume(nativeBatch([start('a'), finish('b'), start('c'), finish('c')]));
    const [request] = await rig.server.received(1);
    t.equal(request?.headers['content-type'], 'application/json');
    t.same(request?.spans.map(hasEnd), [false, true, true]);
  });

  await t.test('from a large batch, which a thread reads and encodes', async (t) => {
    for (const queue of [{}, false] as const) {
      const rig = await rigOf(t, { queue });
      const inputs = 'x'.repeat(700_000);
      await rig.exporter.consume(nativeBatch([finish('a', { inputs }), finish('b', { inputs })]));
      const [request] = await rig.server.received(1);
      t.equal(request?.spans.length, 2);
      t.equal(attributesOf(rig, 0)['input.value'], inputs);
      if (queue !== false) await until(() => isEmpty(rig));
    }
  });

  await t.test('and keeps only a span that is too large as a dead letter', async (t) => {
    const rig = await rigOf(t);
    rig.server.always(({ spans }) =>
      spans.some(({ name }) => name === 'huge') ? { status: 413 } : ACCEPTED,
    );
    const events = ['x', 'y', 'z'].map((id) => finish(id, { name: id === 'y' ? 'huge' : id }));
    await rig.exporter.consume(nativeBatch(events));
    await until(async () => (await deadLettersOf(rig)).length === 1 && isEmpty(rig));
    t.match(await deadLettersOf(rig), [{ items: 1, reason: { code: 'too_large' } }]);
  });

  await t.test('and keeps only an event that cannot be read as a dead letter', async (t) => {
    const rig = await rigOf(t);
    await rig.exporter.consume(nativeBatch([finish('a'), { id: 'no trace' }]));
    await until(async () => (await deadLettersOf(rig)).length === 1 && isEmpty(rig));
    t.match(await deadLettersOf(rig), [{ items: 1, reason: { code: 'unreadable_event' } }]);
    t.equal(rig.server.requests.length, 1);
  });
});
