import fc from 'fast-check';
import t, { type Test } from 'tap';
import type { RequestProcessor } from '../../../src/component/component.ts';
import { createService } from '../../../src/engine/service.ts';
import { Refusal } from '../../../src/model/errors.ts';
import { itemRangeOf, observe, payload } from '../../../src/model/formats.ts';
import { requestContext } from '../../../src/model/request-context.ts';
import { drop, isOpen, mask, reject, replace } from '../../../src/model/verbs.ts';
import { nativeBatch, nativeEvent, otlpBatch, received } from '../../helper/batches.ts';
import { fakeClock } from '../../helper/clock.ts';
import { fakeParts, serviceConfig } from '../../helper/service.ts';
import { recordingLogger } from '../../helper/settings.ts';
import type { Sink } from '../../helper/sink.ts';
import { createSink } from '../../helper/sink.ts';

/** A started service: a receiver, these processors, and a sink behind them. */
async function running(t: Test, processes: readonly RequestProcessor['process'][]) {
  const parts = fakeParts();
  const sink = createSink();
  const logger = recordingLogger();
  const processors = processes.map((process, i) =>
    parts.processor(`p${i}`, process === undefined ? {} : { process }),
  );
  const config = serviceConfig(
    {
      receivers: [parts.receiver('in')],
      processors,
      exporters: [parts.exporter('out', { consume: (batch) => sink.consume(batch) })],
    },
    { traces: `in > ${processors.map(({ id }) => id).join(' ')} > out` },
  );
  const service = await createService({ config, clock: fakeClock(), logger });
  t.teardown(() => service.shutdown());
  await service.start();
  const [pipeline] = parts.pipelines.get('in') ?? [];
  if (pipeline === undefined) throw new Error('no pipeline');
  return { pipeline, sink, logger, text: () => service.metricsText() };
}

/** The sum of a counter's points that have these labels. */
function sum(text: string, name: string, labels: Record<string, string>): number {
  let total = 0;
  for (const line of text.split('\n')) {
    const match = /^(\w+)\{(.*)\} (\S+)$/.exec(line);
    if (match?.[1] !== name) continue;
    const isOne = Object.entries(labels).every(([key, value]) =>
      match[2]?.includes(`${key}="${value}"`),
    );
    if (isOne) total += Number(match[3]);
  }
  return total;
}

const MASKED = '*****';

/** The range of the word `hello` in an item, once in each native event of the helper. */
function helloIn(bytes: Buffer, { start, end }: { start: number; end: number }) {
  const at = bytes.subarray(start, end).indexOf('hello');
  return at === -1 ? undefined : { start: start + at, end: start + at + 5 };
}

const FATE = fc.constantFrom(
  'pass' as const,
  'reject' as const,
  'drop' as const,
  'mask' as const,
  'replace' as const,
);

t.test('accounts for every item, whatever the processors do', async (t) => {
  const fates = fc.array(fc.array(FATE, { minLength: 4, maxLength: 4 }), {
    minLength: 1,
    maxLength: 3,
  });
  await fc.assert(
    fc.asyncProperty(fc.array(fates, { minLength: 1, maxLength: 3 }), async (requests) => {
      let current: readonly (readonly string[])[] = [];
      const { pipeline, sink, text } = await running(
        t,
        [0, 1, 2].map((step) => (batch) => {
          for (const [item, fate] of (current[step] ?? []).entries()) {
            if (!isOpen(batch, item)) continue;
            if (fate === 'reject') reject(batch, item, 'invalid_field', 'x');
            if (fate === 'drop') drop(batch, item, `step${step}`);
            if (fate !== 'mask' && fate !== 'replace') continue;
            const { bytes } = batch.index;
            const range = helloIn(bytes, itemRangeOf(batch.index, item));
            if (range === undefined) continue;
            if (fate === 'mask') mask(batch, [{ item, ...range }]);
            else replace(batch, [{ item, ...range, bytes: Buffer.from('hello again') }]);
          }
        }),
      );
      for (const request of requests) {
        current = request;
        await pipeline.accept(received(nativeBatch(4)), requestContext());
      }
      checkAccounts(await text(), sink, requests.length * 4);
    }),
    { numRuns: 25 },
  );
});

function checkAccounts(text: string, sink: Sink, requested: number): void {
  const receiver = { receiver: 'in' };
  const accepted = sum(text, 'tracectl_receiver_accepted_items_total', receiver);
  const rejected = sum(text, 'tracectl_receiver_rejected_items_total', receiver);
  const sent = sum(text, 'tracectl_exporter_sent_items_total', { exporter: 'out' });
  const dropped = sum(text, 'tracectl_processor_dropped_items_total', { pipeline: 'traces' });
  const stored = sink.batches.reduce(
    (total, batch) => total + (batch.kind === 'raw' ? batch.items : 0),
    0,
  );
  const accounts = { requested, accepted, rejected, sent, dropped, stored };
  const holds = requested === accepted + rejected && accepted === sent + dropped && sent === stored;
  if (!holds) throw new Error(JSON.stringify(accounts));
  let incoming = requested;
  for (const processor of ['p0', 'p1', 'p2']) {
    const of = (name: string) => sum(text, `tracectl_processor_${name}_items_total`, { processor });
    const left = of('outgoing') + of('rejected') + of('dropped');
    if (of('incoming') !== incoming || left !== incoming || of('edited') > of('outgoing')) {
      throw new Error(`${processor}: ${incoming} in, ${left} out, rejected or dropped`);
    }
    incoming = of('outgoing');
  }
  if (incoming !== sent) throw new Error(`${incoming} came out, ${sent} sent`);
}

t.test('accepts a batch whose items are all dropped, and passes it to no exporter', async (t) => {
  const { pipeline, sink, text } = await running(t, [
    (batch) => {
      for (let item = 0; item < batch.requestItems; item++) drop(batch, item, 'test');
    },
  ]);
  const sealed = await pipeline.accept(received(nativeBatch(3)), requestContext());
  t.match(sealed, { items: 0, requestItems: 3, rejections: [], usage: { events: 0, bytes: 0 } });
  t.equal(sink.batches.length, 0);
  const page = await text();
  t.equal(sum(page, 'tracectl_receiver_accepted_items_total', { receiver: 'in' }), 3);
  t.equal(sum(page, 'tracectl_receiver_requests_total', { outcome: 'accepted' }), 1);
  t.equal(
    sum(page, 'tracectl_processor_dropped_items_total', { processor: 'p0', reason: 'test' }),
    3,
  );
});

t.test(
  'passes edited bytes to the next processor and the exporters, of small and large bodies',
  async (t) => {
    const filler = 'x'.repeat(700_000);
    for (const size of ['small', 'large'] as const) {
      const seen: (string | null)[] = [];
      const reserved: number[] = [];
      const { pipeline, text } = await running(t, [
        async (batch) => {
          await Promise.resolve();
          const { bytes } = batch.index;
          const range = helloIn(bytes, itemRangeOf(batch.index, 1));
          if (range !== undefined)
            replace(batch, [{ item: 1, ...range, bytes: Buffer.from('bye') }]);
        },
        (batch) => {
          const { start, end } = itemRangeOf(batch.index, 1);
          seen.push(
            /"content":"(\w+)"/.exec(batch.index.bytes.toString('utf8', start, end))?.[1] ?? '',
          );
        },
        (batch) => drop(batch, 0, 'test'),
      ]);
      const events = [
        nativeEvent({ id: 'a', metadata: size === 'large' ? filler : 'x' }),
        nativeEvent({ id: 'b' }),
      ];
      const sent = nativeBatch(events, { encoding: 'gzip' });
      const request = requestContext({ reserve: (bytes) => void reserved.push(bytes) });
      const sealed = await pipeline.accept(received(sent), request);
      t.same(seen, ['bye'], size);
      t.same(
        observe(sealed).map(({ id }) => id),
        ['b'],
      );
      t.match(payload(sealed, 0).inputs, /"bye"/);
      t.same([sealed.encoding, sealed.positions], ['identity', [1]]);
      t.same(reserved, [JSON.stringify({ events }).length - 2], 'the edited copy is reserved');
      const processor = { processor: 'p0' };
      t.equal(sum(await text(), 'tracectl_processor_edited_items_total', processor), 1);
    }
  },
);

t.test('scans a large body again when masked bytes had escapes', async (t) => {
  const { pipeline } = await running(t, [
    (batch) => {
      const start = batch.index.bytes.indexOf('\\n');
      mask(batch, [{ item: 0, start, end: start + 2 }]);
    },
  ]);
  const event = nativeEvent({ inputs: `a\nb${'x'.repeat(700_000)}` });
  const batch = received(nativeBatch([event]));
  const sealed = await pipeline.accept(batch, requestContext());
  t.match(payload(sealed, 0).inputs, /^"a\*\*bx/);
  t.equal(batch.index.bytes.length, sealed.body.length, 'answers are rendered from a live index');
});

t.test('answers 503 when a processor makes the body invalid', async (t) => {
  const breaking =
    (hello: string) => (batch: Parameters<NonNullable<RequestProcessor['process']>>[0]) => {
      const range = helloIn(batch.index.bytes, itemRangeOf(batch.index, 0));
      if (range !== undefined) replace(batch, [{ item: 0, ...range, bytes: Buffer.from(hello) }]);
    };
  const { pipeline, sink, logger } = await running(t, [breaking('"')]);
  for (const filler of ['x', 'x'.repeat(700_000)]) {
    const batch = received(nativeBatch([nativeEvent({ metadata: filler })]));
    const accepting = pipeline.accept(batch, requestContext());
    await t.rejects(accepting, { name: 'Error', message: /edited the batch into an invalid one/ });
  }
  t.equal(sink.batches.length, 0);
  t.match(logger.lines.at(-1), { level: 'error', fields: { component: 'in' } });

  const full = new Refusal('unavailable', 'Too much data is in flight. Try again.');
  const request = requestContext({
    reserve() {
      throw full;
    },
  });
  const { pipeline: other } = await running(t, [breaking('longer than hello')]);
  await t.rejects(other.accept(received(nativeBatch(1)), request), full);
});

t.test('masks spans without a copy of the body', async (t) => {
  const { pipeline, text } = await running(t, [
    (batch) => {
      const start = batch.index.bytes.indexOf('hello');
      mask(batch, [{ item: 0, start, end: start + 5 }]);
    },
  ]);
  const batch = received(otlpBatch([{ attributes: { k: 'hello' } }]));
  const { bytes } = batch.index;
  const request = requestContext({
    reserve() {
      throw new Error('nothing more is held');
    },
  });
  const sealed = await pipeline.accept(batch, request);
  t.equal(sealed.body, bytes);
  t.ok(sealed.body.includes(MASKED));
  t.equal(sum(await text(), 'tracectl_processor_edited_items_total', { processor: 'p0' }), 1);
});
