import t from 'tap';
import { createProcessor } from '../../../processors/custom_fields/processor.ts';
import type { ReceivedBatch, SealedBatch } from '../../../src/model/batch.ts';
import { observe } from '../../../src/model/formats.ts';
import { requestContext } from '../../../src/model/request-context.ts';
import { reject } from '../../../src/model/verbs.ts';
import { nativeBatch, nativeEvent, rawBatch, received } from '../../helper/batches.ts';

async function processed(batch: SealedBatch): Promise<ReceivedBatch> {
  return judged(received(batch));
}

async function judged(batch: ReceivedBatch): Promise<ReceivedBatch> {
  await createProcessor().process?.(batch, requestContext());
  return batch;
}

/** An event with a value at one of the four places. */
function eventWith(place: string, value: unknown): Record<string, unknown> {
  const nested = place
    .split('.')
    .reduceRight<unknown>((inner, key) => ({ [key]: inner }), value) as Record<string, unknown>;
  return nativeEvent({ metadata: null, ...nested });
}

const PLACES = [
  'custom_fields',
  'metadata.custom_fields',
  'extra.metadata.custom_fields',
  'context_metadata.custom_fields',
];

t.test('accepts an object or null in every place', async (t) => {
  for (const place of PLACES) {
    for (const value of [{}, { a: 1 }, null, undefined]) {
      const batch = await processed(nativeBatch([eventWith(place, value)]));
      t.same(batch.rejections, [], `${place} ${JSON.stringify(value)}`);
    }
  }
});

t.test('rejects an event with another value, and names the path but no value', async (t) => {
  for (const place of PLACES) {
    for (const value of ['SECRET', 424242, true, false, ['SECRET'], '', 0, '{"a":1}']) {
      const events = [eventWith(place, value), nativeEvent()];
      const batch = await processed(nativeBatch(events));
      t.same(batch.rejections, [
        {
          index: 0,
          id: 'observation-1',
          code: 'invalid_custom_fields',
          reason: `events[0].${place} must be an object or null`,
        },
      ]);
    }
  }
});

t.test('checks both metadata, also the one that is not in effect', async (t) => {
  const event = nativeEvent({ metadata: {}, extra: { metadata: { custom_fields: 5 } } });
  const batch = await processed(nativeBatch([event]));
  t.match(batch.rejections[0]?.reason, 'events[0].extra.metadata.custom_fields');
});

t.test('rejects an event once, for its first wrong place', async (t) => {
  const event = nativeEvent({ custom_fields: 1, metadata: { custom_fields: [] } });
  const batch = await processed(nativeBatch([event]));
  t.match(batch.rejections, [{ reason: 'events[0].custom_fields must be an object or null' }]);

  const rejected = received(nativeBatch([event]));
  reject(rejected, 0, 'missing_field', 'earlier');
  await judged(rejected);
  t.match(rejected.rejections, [{ code: 'missing_field' }], 'the first rejection stays');
});

t.test('names runs by their array', async (t) => {
  const body = {
    post: [{ id: 'a' }],
    patch: [{ id: 'b', extra: { metadata: { custom_fields: 1 } } }],
  };
  const batch = await processed(rawBatch('runs', Buffer.from(JSON.stringify(body)), 2));
  t.match(batch.rejections, [
    {
      index: 1,
      id: 'b',
      reason: 'patch[0].extra.metadata.custom_fields must be an object or null',
    },
  ]);
});

t.test('checks the last one of repeated members', async (t) => {
  const of = (text: string) => rawBatch('native', Buffer.from(`{"events":[{${text}}]}`), 1);
  const replaced = await processed(of('"custom_fields":1,"custom_fields":{}'));
  t.same(replaced.rejections, []);
  const parent = await processed(of('"metadata":{"custom_fields":1},"metadata":{}'));
  t.same(parent.rejections, []);
});

t.test('leaves custom fields that normalization merges: context, metadata, event', (t) => {
  const batch = nativeBatch([
    nativeEvent({
      context_metadata: { custom_fields: { a: 'c', b: 'c', c: 'c' } },
      metadata: { custom_fields: { b: 'm', c: 'm', __proto__x: 1 } },
      extra: { metadata: { custom_fields: { z: 'not in effect' } } },
      custom_fields: { c: 'e', a: ' ', id: 'reserved', api_key: 'secret', d: { nested: 1 } },
    }),
  ]);
  t.same({ ...observe(batch)[0]?.customFields }, { a: 'c', b: 'm', c: 'e', __proto__x: '1' });
  const text =
    '{"id":"a","trace_id":"t","operation":"start","custom_fields":{"b\\\\":1,"__proto__":"x"}}';
  const twice = rawBatch(
    'native',
    Buffer.from(`{"events":[${text},${text.replace('b\\\\', 'b\\u0021')}]}`),
    2,
  );
  t.same(
    observe(twice).map(({ customFields }) => ({ ...customFields })),
    [{ 'b\\': '1' }, { 'b!': '1' }],
    'keys are what was sent, whatever was parsed before',
  );
  t.end();
});
