import t from 'tap';
import type { Batch } from '../../../src/model/batch.ts';
import { itemsOf, rawOf } from '../../../src/model/batch.ts';
import { PermanentError, RetryableError } from '../../../src/model/errors.ts';
import { requestContext } from '../../../src/model/request-context.ts';
import { reject } from '../../../src/model/verbs.ts';
import { nativeBatch, observationBatch, received } from '../../helper/batches.ts';
import { fakeParts } from '../../helper/service.ts';
import { createSink, memoryLedger } from '../../helper/sink.ts';
import { point, running } from './running.ts';

t.test('cuts rejected items out before the exporters, and counts them', async (t) => {
  const parts = fakeParts();
  const sink = createSink();
  const settled: string[] = [];
  const { pipelineOf, service } = await running(
    t,
    parts,
    {
      receivers: [parts.receiver('in')],
      processors: [
        parts.processor('validation', {
          process: (batch) => reject(batch, 1, 'missing_field', 'is required', 'events[1].id'),
        }),
        parts.processor('quotas', {
          process: () => Promise.resolve(),
          settle: (batch, outcome) => void settled.push(`${batch.id} ${outcome}`),
        }),
      ],
      exporters: [parts.exporter('out', { consume: (batch) => sink.consume(batch) })],
    },
    { traces: 'in > validation quotas > out' },
  );
  const batch = await pipelineOf('in').accept(received(nativeBatch(3)), requestContext());
  t.equal(sink.batches[0], batch);
  t.equal(JSON.parse(batch.body.toString()).events.length, 2);
  t.same(batch.positions, [0, 2]);
  t.equal(batch.usage.events, 2);
  t.ok(batch.usage.bytes > 0);
  t.same(settled, [`${batch.id} durable`]);

  const text = await service.metricsText();
  const at = { receiver: 'in', pipeline: 'traces' };
  t.equal(point(text, 'tracectl_receiver_accepted_items_total', at), 2);
  t.equal(
    point(text, 'tracectl_receiver_rejected_items_total', { ...at, code: 'missing_field' }),
    1,
  );
  t.equal(point(text, 'tracectl_receiver_requests_total', { ...at, outcome: 'accepted' }), 1);
  t.equal(point(text, 'tracectl_processor_incoming_items_total', { processor: 'validation' }), 3);
  t.equal(point(text, 'tracectl_processor_outgoing_items_total', { processor: 'validation' }), 2);
  t.equal(point(text, 'tracectl_processor_dropped_items_total', { processor: 'validation' }), 0);
  const rejected = (id: string) =>
    service.flow().nodes.find((node) => node.id === id)?.codes.rejected;
  t.strictSame(rejected('in'), { missing_field: 1 });
  t.strictSame(rejected('validation'), { missing_field: 1 });
  t.strictSame(rejected('quotas'), {}, 'a processor counts only the items that it rejects itself');
  t.equal(point(text, 'tracectl_exporter_sent_items_total', { exporter: 'out' }), 2);
});

t.test('cuts rejected items out before normalization', async (t) => {
  const parts = fakeParts();
  const seen: Batch[] = [];
  const { pipelineOf } = await running(
    t,
    parts,
    {
      receivers: [parts.receiver('in')],
      processors: [
        parts.batchProcessor(
          'normalization',
          (batch) => {
            t.same(rawOf(batch).positions, [0]);
            return observationBatch(rawOf(batch));
          },
          'observations',
        ),
      ],
      exporters: [parts.exporter('out', { consume: async (batch) => void seen.push(batch) })],
    },
    { traces: 'in > normalization > out' },
  );
  const batch = received(nativeBatch(2));
  reject(batch, 1, 'invalid_field', 'events[1].kind');
  const sealed = await pipelineOf('in').accept(batch, requestContext());
  t.equal(seen[0]?.kind, 'observations');
  t.equal(sealed.usage.events, 1);
});

t.test('passes a batch without items only to the exporter that keeps its answer', async (t) => {
  const parts = fakeParts();
  const queue = createSink();
  const other = createSink();
  const { pipelineOf } = await running(
    t,
    parts,
    {
      receivers: [parts.receiver('in')],
      exporters: [
        parts.exporter('other', { consume: (batch) => other.consume(batch) }),
        parts.exporter('queue', {
          consume: (batch, request) => queue.consume(batch, request),
          idempotency: memoryLedger(),
        }),
      ],
    },
    { traces: 'in > > other queue' },
  );
  const pipeline = pipelineOf('in');
  t.ok(pipeline.idempotency);
  const none = () => {
    const batch = received(nativeBatch(1));
    reject(batch, 0, 'invalid_event', 'events[0]');
    return batch;
  };
  await pipeline.accept(none(), requestContext());
  t.same([queue.batches.length, other.batches.length], [0, 0]);
  const claim = {
    key: 'k',
    requestHash: Buffer.alloc(32),
    render: () => ({ status: 400, contentType: 'application/json', body: Buffer.from('{}') }),
  };
  await pipeline.accept(none(), requestContext({ claim }));
  t.same([queue.batches.length, other.batches.length], [1, 0]);
});

t.test(
  'gives an answer to keep to its keeper when every other exporter has the batch',
  async (t) => {
    const parts = fakeParts();
    const queue = createSink();
    const other = createSink();
    const keptBefore: number[] = [];
    const { pipelineOf } = await running(
      t,
      parts,
      {
        receivers: [parts.receiver('in')],
        exporters: [
          parts.exporter('queue', {
            consume: (batch, request) => queue.consume(batch, request),
            idempotency: memoryLedger(),
          }),
          parts.exporter('other', {
            consume(batch, request) {
              keptBefore.push(queue.batches.length);
              if (request !== undefined) request.isUsageEntered = true;
              return other.consume(batch, request);
            },
          }),
        ],
      },
      { traces: 'in > > queue other' },
    );
    const claim = {
      key: 'k',
      requestHash: Buffer.alloc(32),
      render: () => ({ status: 202, contentType: 'application/json', body: Buffer.from('{}') }),
    };
    const accept = (given: Partial<typeof claim> & { keptFor?: number } = {}) => {
      const request = requestContext({ claim: { ...claim, ...given } });
      return pipelineOf('in')
        .accept(received(nativeBatch(1)), request)
        .then(() => request);
    };
    for (const given of [{}, { key: '\0k', keptFor: 600_000 }]) {
      other.behave('retryable');
      await t.rejects(accept(given), { code: 'test_retryable' });
      t.same([queue.batches.length, other.batches.length], [0, 0], 'no answer is kept');
      other.behave('ok');
      const request = await accept(given);
      t.same([queue.batches.length, other.batches.length], [1, 1]);
      t.ok(queue.requests.at(-1)?.answer);
      t.notOk(other.requests.at(-1)?.answer, 'only the keeper gets the answer');
      t.equal(request.isUsageEntered, true);
      queue.batches.length = 0;
      other.batches.length = 0;
    }
    t.same(keptBefore, [0, 0, 0, 0]);
    const none = received(nativeBatch(1));
    reject(none, 0, 'invalid_event', 'events[0]');
    await pipelineOf('in').accept(
      none,
      requestContext({ claim: { ...claim, key: '\0k', keptFor: 600_000 } }),
    );
    t.equal(queue.batches.length, 0, 'an implicit key keeps no answer without items');
  },
);

t.test('is retryable if one of several failures is', async (t) => {
  const parts = fakeParts();
  const a = createSink();
  const b = createSink();
  const settled: string[] = [];
  const { pipelineOf, service, logger } = await running(
    t,
    parts,
    {
      receivers: [parts.receiver('in')],
      processors: [
        parts.processor('quotas', {
          process: () => {},
          settle: (_batch, outcome) => {
            settled.push(outcome);
            throw new Error('must not throw');
          },
        }),
      ],
      exporters: [
        parts.exporter('a', { consume: (batch) => a.consume(batch) }),
        parts.exporter('b', { consume: (batch) => b.consume(batch) }),
      ],
    },
    { traces: 'in > quotas > a b' },
  );
  const accept = () => pipelineOf('in').accept(received(nativeBatch(1)), requestContext());
  a.behave(() => {
    throw new RetryableError('queue_full', 'The queue is full.', { retryAfterMs: 7 });
  });
  await t.rejects(accept(), { name: 'RetryableError', code: 'queue_full', retryAfterMs: 7 });
  t.equal(b.batches.length, 1, 'the other exporter has it');
  b.behave('permanent');
  await t.rejects(accept(), { name: 'RetryableError', code: 'queue_full' });
  a.behave('permanent');
  await t.rejects(accept(), { name: 'PermanentError', code: 'test_permanent' });
  a.behave(() => {
    throw new Error('a bug');
  });
  await t.rejects(accept(), { name: 'RetryableError', code: 'internal' });
  t.same(settled, ['failed', 'failed', 'failed', 'failed']);
  const faults = logger.lines.filter(({ message }) => message === 'Component failed unexpectedly');
  t.same(
    faults.map(({ fields }) => fields.component),
    ['quotas', 'a'],
    'one line for each component',
  );
  const text = await service.metricsText();
  t.equal(point(text, 'tracectl_receiver_refused_items_total', { receiver: 'in' }), 4);
  t.equal(
    point(text, 'tracectl_exporter_send_failed_items_total', { exporter: 'a', code: 'queue_full' }),
    2,
  );
  t.equal(point(text, 'tracectl_exporter_sent_items_total', { exporter: 'b' }), 1);
});

t.test('asks for the longest wait of several retryable failures', async (t) => {
  const parts = fakeParts();
  const failing = (name: string, retryAfterMs: number) =>
    parts.exporter(name, {
      consume: () => Promise.reject(new RetryableError('queue_full', 'full', { retryAfterMs })),
    });
  const { pipelineOf } = await running(
    t,
    parts,
    { receivers: [parts.receiver('in')], exporters: [failing('a', 3), failing('b', 7)] },
    { traces: 'in > > a b' },
  );
  const accepted = pipelineOf('in').accept(received(nativeBatch(1)), requestContext());
  await t.rejects(accepted, { name: 'RetryableError', retryAfterMs: 7 });
});

t.test(
  'lets a queue run the processors once and deliver to each exporter separately',
  async (t) => {
    const parts = fakeParts();
    const sink = createSink();
    const { pipelineOf, service } = await running(
      t,
      parts,
      {
        receivers: [parts.receiver('in')],
        connectors: [parts.connector('queue')],
        processors: [
          parts.batchProcessor(
            'normalization',
            (batch) => observationBatch(rawOf(batch)),
            'observations',
          ),
          parts.batchProcessor('sampler', (batch) =>
            batch.kind === 'raw' ? batch : { ...batch, observations: batch.observations.slice(1) },
          ),
        ],
        exporters: [
          parts.exporter('good', { consume: (batch) => sink.consume(batch) }),
          parts.exporter('bad', { consume: () => Promise.reject(new PermanentError('no', 'no')) }),
        ],
      },
      { 'traces/in': 'in > > queue', 'traces/out': 'queue > normalization sampler > good bad' },
    );
    const pipeline = pipelineOf('queue');
    const batch = nativeBatch(3);
    const processed = await pipeline.process(batch);
    t.equal(itemsOf(await pipeline.process(batch, true)), 2, 'a retry is not counted');
    const itemsOut = (id: string) =>
      service.flow().nodes.find((node) => node.id === id)?.counts.items_out;
    t.equal(itemsOut('queue'), 3);
    await pipelineOf('in').process(nativeBatch(2));
    t.equal(itemsOut('in'), 2, 'a receiver may be the worker of a queue');
    const [good, bad] = pipeline.branches;
    await good?.consume(processed);
    await t.rejects(Promise.resolve(bad?.consume(processed)), { code: 'no' });
    t.equal(sink.batches.length, 1);
    const text = await service.metricsText();
    t.equal(
      point(text, 'tracectl_processor_dropped_items_total', {
        processor: 'sampler',
        reason: 'left_out',
      }),
      1,
    );
    t.equal(point(text, 'tracectl_exporter_sent_items_total', { exporter: 'good' }), 2);
  },
);
