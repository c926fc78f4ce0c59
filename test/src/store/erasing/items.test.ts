import { gzipSync, zstdCompressSync } from 'node:zlib';
import t from 'tap';
import type { Encoding, SealedBatch } from '../../../../src/model/batch.ts';
import {
  bytesOf,
  indexOf,
  observe,
  payload,
  placeInBody,
  storedPositionsOf,
} from '../../../../src/model/formats.ts';
import { inflateSync } from '../../../../src/model/inflate.ts';
import { batchOf, recordOf } from '../../../../src/queue/record.ts';
import { tracedItems, withoutItems } from '../../../../src/store/erasing/items.ts';
import { positionsOf } from '../../../../src/store/rows/batch-rows.ts';
import { nativeBatch, nativeEvent, rawBatch } from '../../../helper/batches.ts';
import { encodeRequest } from '../../../helper/otlp-proto.ts';

const TRACES = ['a', 'b', 'a', 'c', 'b', 'a'];

function body(batch: SealedBatch): string {
  return inflateSync(batch.body, batch.encoding, 1e6).toString('latin1');
}

/** Six items of three traces; the id, name and input of each item are its own. */
function batches(): SealedBatch[] {
  const events = TRACES.map((trace, i) =>
    nativeEvent({ id: `item-${i}`, trace_id: trace, name: `secret-${i}`, inputs: `input-${i}` }),
  );
  const runs = TRACES.map((trace, i) => ({
    ...{ id: `item-${i}`, trace_id: trace, name: `secret-${i}`, run_type: 'llm' },
    ...{ inputs: { text: `input-${i}` }, dotted_order: `20260115T120000000000Zitem-${i}` },
  }));
  const compact = JSON.stringify({ post: runs.slice(0, 4), patch: runs.slice(4) });
  return [
    ...(['identity', 'gzip', 'zstd'] as const).map((encoding) => {
      const plain = nativeBatch(events);
      return { ...plain, encoding, body: compressed(plain.body, encoding) };
    }),
    rawBatch('runs', Buffer.from(compact), 6),
    rawBatch('otlp_json', Buffer.from(JSON.stringify(otlpRequest())), 6),
    rawBatch('otlp_proto', encodeRequest(otlpRequest()), 6),
  ];
}

/** Each trace has a resource and a scope of its own in addition to those that all share. */
function otlpRequest(): { resourceSpans: object[] } {
  const attribute = (key: string, value: string): object => ({
    key,
    value: { stringValue: value },
  });
  const span = (i: number): object => ({
    traceId: `0${'abc'.indexOf(TRACES[i] ?? '') + 1}`.repeat(16),
    spanId: `0${i + 1}`.repeat(8),
    name: `secret-${i}`,
    attributes: [attribute('input.value', `input-${i}`)],
  });
  const resource = (name: string, scopes: object[]): object => ({
    resource: { attributes: [attribute('service.name', name)] },
    scopeSpans: scopes,
  });
  const scope = (name: string, spans: object[]): object => ({ scope: { name }, spans });
  return {
    resourceSpans: [
      resource('resource-of-a', [scope('scope-of-a', [span(0)])]),
      resource('shared', [
        scope('first-of-all', [span(1), span(2), span(3)]),
        scope('scope-of-b', [span(4)]),
        scope('second-of-a', [span(5)]),
      ]),
    ],
  };
}

function compressed(bytes: Buffer, encoding: Encoding): Buffer {
  if (encoding === 'identity') return bytes;
  return encoding === 'gzip' ? gzipSync(bytes) : zstdCompressSync(bytes);
}

function stored(batch: SealedBatch): SealedBatch {
  return batchOf(recordOf(batch));
}

function itemsOfTrace(batch: SealedBatch, i: number): Set<number> {
  const wanted = tracedItems(batch)[i]?.traceId;
  const items = tracedItems(batch).filter(({ traceId }) => traceId === wanted);
  return new Set(items.map(({ position }) => position));
}

t.test('an erased item leaves no byte, and the others keep their references', async (t) => {
  for (const batch of batches()) {
    const label = `${batch.format} ${batch.encoding}`;
    const whole = observe(batch);
    const erased = stored(withoutItems(batch, itemsOfTrace(batch, 0)));
    t.equal(erased.items, 3, label);
    t.same(erased.gaps, [0, 2, 5]);
    t.same(erased.positions, [1, 3, 4]);
    t.same(storedPositionsOf(erased), [1, 3, 4]);
    t.equal(erased.encoding, batch.encoding);
    for (const i of [0, 2, 5]) {
      t.notMatch(body(erased), `secret-${i}`, label);
      t.notMatch(body(erased), `input-${i}`, label);
      t.equal(placeInBody(erased, i), undefined);
    }
    for (const i of [1, 3, 4]) {
      const place = placeInBody(erased, i);
      t.match(payload(erased, place ?? -1, ['inputs']).inputs, `input-${i}`, label);
    }
    const left = observe(erased);
    t.same(left, [whole[1], whole[3], whole[4]], label);
    const positions = positionsOf(erased);
    t.same(
      left.map(({ index }) => positions?.get(index)),
      [1, 3, 4],
    );
  }
});

t.test('items are erased from a batch that lacks some already', async (t) => {
  for (const batch of batches()) {
    const first = stored(withoutItems(batch, itemsOfTrace(batch, 0)));
    const second = stored(withoutItems(first, itemsOfTrace(first, 0)));
    t.same(second.gaps, [0, 1, 2, 4, 5], batch.format);
    t.same(second.positions, [3]);
    t.match(payload(second, placeInBody(second, 3) ?? -1, ['inputs']).inputs, 'input-3');
    const none = stored(withoutItems(second, new Set([0])));
    t.equal(none.items, 0);
    t.same(none.positions, []);
    t.same(none.gaps, [0, 1, 2, 3, 4, 5]);
    t.equal(indexOf(none).count, 0);
    t.notMatch(body(none), /secret|input-/);
  }
});

t.test('resources and scopes that only erased spans have go with them', async (t) => {
  for (const batch of batches().filter(({ format }) => format.startsWith('otlp'))) {
    const erased = withoutItems(batch, itemsOfTrace(batch, 0));
    t.notMatch(body(erased), /resource-of-a|scope-of-a|second-of-a/, batch.format);
    t.match(body(erased), /shared/);
    t.match(body(erased), /first-of-all/);
    t.match(body(erased), /scope-of-b/);
    const none = withoutItems(erased, new Set([0, 1, 2]));
    t.notMatch(body(none), /shared|first-of-all|scope/, batch.format);
  }
});

t.test('an item that cannot be normalized belongs to the trace that it names', async (t) => {
  const events = [nativeEvent({ id: 'ok' }), nativeEvent({ id: 'bad', start_time: 'never' })];
  const batch = nativeBatch(events);
  const items = tracedItems(batch);
  t.same(
    items.map(({ position, traceId }) => [position, traceId]),
    [
      [0, 'trace-1'],
      [1, 'trace-1'],
    ],
  );
  t.same(
    items.map(({ bytes }) => bytes),
    events.map((event) => JSON.stringify(event).length),
  );
});

t.test('a cut body and its gaps survive a record together', async (t) => {
  const batch = nativeBatch(4, { items: 3, requestItems: 4, positions: [0, 2, 3] });
  const cut = { ...batch, body: bytesOf(batch, [0, 2, 3]) };
  const erased = stored(withoutItems(cut, new Set([1])));
  t.same(erased.positions, [0, 3]);
  t.same(erased.gaps, [1]);
  t.equal(placeInBody(erased, 0), 0);
  t.equal(placeInBody(erased, 2), 1);
});
