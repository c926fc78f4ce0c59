import t from 'tap';
import { factory } from '../../../processors/normalization/factory.ts';
import { createProcessor as createNormalization } from '../../../processors/normalization/processor.ts';
import type { ObservationBatch, SealedBatch } from '../../../src/model/batch.ts';
import { PREVIEW_CHARACTERS } from '../../../src/model/preview.ts';
import { nativeBatch, nativeEvent, otlpBatch, rawBatch } from '../../helper/batches.ts';
import { testSettings } from '../../helper/settings.ts';

const FAILED = 'tracectl_processor_normalization_failed_items_total';

async function normalized(batch: SealedBatch) {
  const settings = testSettings('processor', 'normalization');
  const processor = createNormalization(settings);
  await processor.start();
  const result = (await processor.process?.(batch)) as ObservationBatch;
  await processor.shutdown(AbortSignal.abort());
  return { result, settings };
}

t.test('declares raw batches in and observations out', async (t) => {
  t.match(factory, { type: 'normalization', data: { accepts: ['raw'], emits: 'observations' } });
  t.ok(factory.config.safeParse({}).success);
  t.notOk(factory.config.safeParse({ extra: 1 }).success);
});

t.test('turns every format into observations with their raw batch', async (t) => {
  const run = { id: 'run-1', trace_id: 'run-1', name: 'a run', run_type: 'llm', inputs: {} };
  const runs = rawBatch('runs', Buffer.from(JSON.stringify({ post: [run], patch: [] })), 1);
  const batches = [nativeBatch(2), runs, otlpBatch(3), otlpBatch(2, { format: 'otlp_json' })];
  for (const batch of batches) {
    const { result, settings } = await normalized(batch);
    t.equal(result.kind, 'observations');
    t.equal(result.source, batch);
    t.equal(result.observations.length, batch.requestItems);
    t.same(
      result.observations.map((observation) => observation.index),
      Array.from({ length: batch.requestItems }, (_, i) => i),
    );
    t.equal(settings.metrics.value(FAILED), 0);
  }
});

t.test('takes an empty text for an absent one in every format', async (t) => {
  const none = { name: null, model: null, sessionId: null, userId: null };
  const empty = { name: '', model: '', session_id: '', user_id: '' };
  const metadata = { session_id: '', user_id: '', ls_model_name: '' };
  const run = { id: 'run-1', trace_id: 'run-1', name: '', run_type: 'llm', extra: { metadata } };
  const attributes = { 'gen_ai.request.model': '', 'session.id': '', 'user.id': '' };
  const batches = [
    nativeBatch([nativeEvent(empty)]),
    rawBatch('runs', Buffer.from(JSON.stringify({ post: [run], patch: [] })), 1),
    otlpBatch([{ name: '', attributes }]),
    otlpBatch([{ name: '', attributes }], { format: 'otlp_json' }),
  ];
  for (const batch of batches) {
    const { result } = await normalized(batch);
    t.match(result.observations, [none], batch.format);
    t.equal(result.source, batch);
  }
});

t.test('keeps the siblings of a span that cannot be read', async (t) => {
  for (const format of ['otlp_proto', 'otlp_json'] as const) {
    const spans = [{ name: 'first' }, { name: 'bad', spanId: '00'.repeat(8) }, { name: 'last' }];
    const { result, settings } = await normalized(otlpBatch(spans, { format }));
    t.same(
      result.observations.map(({ name, index }) => [name, index]),
      [
        ['first', 0],
        ['last', 2],
      ],
    );
    t.equal(settings.metrics.value(FAILED), 1);
    t.match(settings.logger.lines, [{ level: 'warn', fields: { failed: 1, index: 1 } }]);
  }
});

t.test('normalizes a large batch in a thread, with the same result', async (t) => {
  const filler = 'x'.repeat(2 * 1_048_576);
  const fields = { team: 'search', 'q"uote': '\\', ['__proto__']: 'own' };
  const events = [
    nativeEvent({ id: 'a', inputs: filler, custom_fields: fields }),
    nativeEvent({ id: 'b' }),
    { id: 'unreadable' },
  ];
  const large = (await normalized(nativeBatch(events))).result;
  const small = (await normalized(nativeBatch([{ ...events[0], inputs: 'x' }, ...events.slice(1)])))
    .result;
  t.equal(large.observations[0]?.customFieldsText?.includes('"team":"search"'), true);
  t.equal(small.observations[0]?.customFieldsText, undefined);
  const all = ({ observations }: ObservationBatch) =>
    observations.map((one) => {
      const { customFieldsText: _, ...rest } = { ...one, customFields: { ...one.customFields } };
      // The batches differ in the size of one input.
      const { inputBytes: _bytes, inputPreview: _preview, ...details } = one.details ?? {};
      return { ...rest, details };
    });
  t.same(all(large), all(small));
  t.equal(large.observations[0]?.details?.inputBytes, filler.length + 2);
  t.equal(small.observations[0]?.details?.inputBytes, 3);
  t.equal(large.observations[0]?.details?.inputPreview, 'x'.repeat(PREVIEW_CHARACTERS));
  t.equal(small.observations[0]?.details?.inputPreview, 'x');
  t.same(large.failures, small.failures);
  t.equal(large.failures?.length, 1);
});

t.test('counts an unreadable item once over all retries', async (t) => {
  const settings = testSettings('processor', 'normalization');
  const processor = createNormalization(settings);
  const batch = otlpBatch([{ spanId: '00'.repeat(8) }]);
  await processor.process?.(batch);
  await processor.process?.(batch, true);
  t.equal(settings.metrics.value(FAILED), 1);
});

t.test('normalizes a small batch with many keys in a thread', async (t) => {
  const processor = createNormalization(testSettings('processor', 'normalization'));
  t.teardown(() => processor.shutdown(AbortSignal.abort()));
  const isInThread = async (batch: SealedBatch) => {
    const result = processor.process?.(batch);
    t.equal(((await result) as ObservationBatch).observations.length, batch.requestItems);
    return result instanceof Promise;
  };
  const text = 'x'.repeat(32_768 - '{"k":""}'.length);
  const fields = (k: string) => nativeEvent({ metadata: { custom_fields: { k } } });
  t.equal(await isInThread(nativeBatch([fields(text), fields(text)])), false);
  t.equal(await isInThread(nativeBatch([fields(text), fields(`${text}x`)])), true);
  const counts = (bytes: number) =>
    nativeEvent({ metadata: {}, usage: { k: 'x'.repeat(bytes - '{"k":""}'.length) } });
  t.equal(await isInThread(nativeBatch([counts(512), counts(66_048)])), false);
  t.equal(await isInThread(nativeBatch([counts(513), counts(66_048)])), true);
  const usual = (count: number) => Array.from({ length: count }, () => counts(512));
  t.equal(await isInThread(nativeBatch(usual(256))), false);
  t.equal(await isInThread(nativeBatch([...usual(256), counts(8)])), true);
  const answers = (bytes: number) => {
    const usage = { k: 'x'.repeat(bytes - '{"k":""}'.length) };
    const run = { id: 'run-1', trace_id: 'run-1', run_type: 'llm', outputs: { usage } };
    return rawBatch('runs', Buffer.from(JSON.stringify({ post: [run] })), 1);
  };
  t.equal(await isInThread(answers(66_048)), false);
  t.equal(await isInThread(answers(66_049)), true);
  const spans = (count: number) =>
    [4_000, count - 4_000].map((each, span) => ({
      attributes: Object.fromEntries(Array.from({ length: each }, (_, i) => [`${span}.${i}`, 'a'])),
    }));
  // The resource has one, too.
  t.equal(await isInThread(otlpBatch(spans(8_191))), false);
  t.equal(await isInThread(otlpBatch(spans(8_192))), true);
});
