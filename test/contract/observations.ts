import type { Test } from 'tap';
import type { ObservationBatch } from '../../src/model/batch.ts';
import type { Observation } from '../../src/model/observation.ts';
import {
  anObservation,
  aTenant,
  nativeBatch,
  otlpBatch,
  testProject as P,
  rawBatch,
} from '../helper/batches.ts';
import type { OpenStore } from './place.ts';
import { batchWith, T0, write } from './writing.ts';

/** The rules for stored observations and their raw batches. */
export function observations(t: Test, open: OpenStore): void {
  t.test('reads every field of an observation back', async (t) => {
    const { store, reopen } = await open(t);
    const observation = anObservation({
      parentId: 'parent',
      version: '18446744073709551615',
      startTime: { ms: -62_167_219_200_000, ns: 999_999 },
      endTime: { ms: 253_402_300_799_999, ns: 1 },
      model: 'm',
      usage: { input_tokens: 1, output_tokens: 2 },
      sessionId: 's',
      userId: 'u',
      error: { message: 'no', type: null, stacktrace: 'at x' },
      customFields: { team: 'a', ['__proto__']: 'b', 'q"uote': '\\' },
      external: { run_type: 'prompt' },
    });
    const batch = batchWith([observation]);
    await store.traces.write(batch);
    const after = await reopen();
    const found = await after.traces.getObservation(P, 'observation-1', 'trace-1');
    const ref = { batchId: batch.source.id, position: 0 };
    const { index: _, operation: __, payloadMask: ___, ...fields } = observation;
    t.same(found, {
      ...fields,
      projectId: P,
      state: 'finished',
      source: 'native',
      payload: { inputs: ref, outputs: ref, metadata: ref },
      events: [ref],
      createdAt: batch.source.receivedAt,
      updatedAt: batch.source.receivedAt,
    });
  });

  t.test('stores a large new batch with all its rows, once', async (t) => {
    const { store, reopen } = await open(t);
    const text = 'x'.repeat(5500);
    const events = Array.from({ length: 450 }, (_, i) => ({ id: `o${i}`, inputs: { i, text } }));
    const source = nativeBatch(events);
    const all = events.map(({ id }, index) => anObservation({ id, index, payloadMask: 1 }));
    // A process died when some of the rows were in.
    await store.traces.write({ kind: 'observations', source, observations: all.slice(0, 230) });
    const after = await reopen();
    const before = await after.traces.getObservation(P, 'o7', 'trace-1');
    await after.traces.write({ kind: 'observations', source, observations: all });
    t.match(await after.traces.getTrace(P, 'trace-1'), { observationCount: 450 });
    t.same(await after.traces.getObservation(P, 'o7', 'trace-1'), before);
    const [kept] = await after.traces.getBatches(P, [source.id]);
    t.ok(kept?.body.equals(source.body), 'more than two megabytes, byte by byte');
    const ref = { batchId: source.id, position: 449 };
    t.match(await after.traces.getObservation(P, 'o449'), { payload: { inputs: ref } });
    t.same(await after.usage.verify(), []);
  });

  t.test('reads absent fields as null', async (t) => {
    const { store } = await open.shared();
    const none = { name: null, kind: null, status: null, startTime: null, endTime: null };
    await write(store, [
      anObservation({ ...none, ended: false, customFields: null, payloadMask: 0 }),
    ]);
    const found = await store.traces.getObservation(P, 'observation-1');
    t.match(found, { ...none, ended: false, customFields: null, error: null, external: null });
    t.same(found?.payload, {});
    t.equal(found?.events.length, 1, 'the event that has no payload');
  });

  t.test('lists the ids of traces that begin with hex digits', async (t) => {
    const { store } = await open.shared();
    const begin = 'abcdef0123456789';
    const ids = ['f', '0', '9'].map((digit) => begin + digit.repeat(16));
    const others = [begin.slice(1), `${begin.slice(0, 15)}8`, `${begin}g`, 'abcdef012345678a'];
    const write1 = (traceId: string) =>
      anObservation({ traceId, id: `${traceId}:${'b'.repeat(16)}` });
    await write(store, [...ids, ...others].map(write1));
    const sorted = ids.toSorted();
    t.same(await store.traces.listTraceIds(P, begin, 10), sorted);
    t.same(await store.traces.listTraceIds(P, begin, 2), sorted.slice(0, 2));
    t.same(await store.traces.listTraceIds(P, 'abcdef012345678b', 10), []);
    t.same(await store.traces.listTraceIds('proj_other', begin, 10), []);
  });

  t.test('keeps ids of any form distinct', async (t) => {
    const { store } = await open.shared();
    const long = 'é'.repeat(2048);
    const otlp = { traceId: 'a'.repeat(32), id: `${'a'.repeat(32)}:${'b'.repeat(16)}` };
    const list: Pick<Observation, 'id' | 'traceId' | 'parentId'>[] = [
      { ...otlp, parentId: `${'a'.repeat(32)}:${'c'.repeat(16)}` },
      { id: ':starts-with-a-colon', traceId: ':trace', parentId: ':parent' },
      { id: `t:${'d'.repeat(16)}`, traceId: 't', parentId: `t:${'e'.repeat(16)}` },
      { id: `:${'d'.repeat(16)}`, traceId: 't', parentId: `:${'e'.repeat(16)}` },
      { id: long, traceId: long, parentId: `${long}x` },
      { id: `${long}y`, traceId: long, parentId: null },
      { id: "'; DROP TABLE observations; --", traceId: '__proto__', parentId: '%' },
      { id: 'x'.repeat(64), traceId: 'x'.repeat(65), parentId: 'x'.repeat(66) },
      { id: '😀'.repeat(40), traceId: ' ', parentId: '\n' },
    ];
    await write(
      store,
      list.map((ids) => anObservation(ids)),
    );
    for (const { id, traceId, parentId } of list) {
      const found = await store.traces.getObservation(P, id, traceId ?? '');
      t.same([found?.id, found?.traceId, found?.parentId], [id, traceId, parentId]);
      const anywhere = await store.traces.getObservation(P, id);
      t.equal(anywhere?.traceId, traceId, `${id.slice(0, 20)} is found without its trace`);
      const page = await store.traces.listObservations(P, traceId ?? '', { limit: 10 });
      t.ok(page.items.some((item) => item.id === id));
      t.equal((await store.traces.getTrace(P, traceId ?? ''))?.id, traceId);
    }
  });

  t.test('reads external ids of spans back as sent', async (t) => {
    const { store } = await open.shared();
    const trace = 'a'.repeat(32);
    const spans = [
      {
        id: `${trace}:${'1'.repeat(16)}`,
        parentId: null,
        external: { trace_id: trace, span_id: '1'.repeat(16) },
      },
      {
        id: `${trace}:${'2'.repeat(16)}`,
        parentId: `${trace}:${'1'.repeat(16)}`,
        external: { trace_id: trace, span_id: '2'.repeat(16), parent_span_id: '1'.repeat(16) },
      },
      {
        id: `${trace}:${'3'.repeat(16)}`,
        parentId: null,
        external: { trace_id: 'A'.repeat(32), span_id: '3'.repeat(16) },
      },
    ];
    const source = otlpBatch(3);
    const list = spans.map((span, index) => anObservation({ ...span, traceId: trace, index }));
    await store.traces.write({ kind: 'observations', source, observations: list });
    const { items } = await store.traces.listObservations(P, trace, { limit: 10 });
    t.same(
      items.map(({ external }) => external),
      spans.map(({ external }) => external),
    );
    t.same(
      items.map(({ source: from }) => from),
      ['otlp', 'otlp', 'otlp'],
    );
  });

  t.test('isolates projects', async (t) => {
    const { store } = await open(t);
    const other = aTenant({ projectId: 'proj_other' });
    await write(store, [anObservation({ name: 'mine' })]);
    await write(store, [anObservation({ name: 'theirs' })], { tenant: other });
    const theirs = await store.traces.getObservation('proj_other', 'observation-1', 'trace-1');
    t.equal(theirs?.name, 'theirs');
    t.equal((await store.traces.getObservation(P, 'observation-1'))?.name, 'mine');
    t.equal((await store.traces.listTraces(P, { limit: 9 })).items.length, 1);
    const ref = theirs?.payload.inputs?.batchId ?? '';
    t.same(await store.traces.getBatches(P, [ref]), []);
    t.equal((await store.traces.getBatches('proj_other', [ref])).length, 1);
    t.same([...(await store.traces.batchStamps(P, [ref, 'none']))], []);
    const stamps = await store.traces.batchStamps('proj_other', [ref, 'none']);
    t.same([...stamps.keys()], [ref]);
    t.same(await store.traces.batchStamps('proj_other', [ref]), stamps, 'the body is the same');
    t.equal(await store.traces.getTrace('proj_none', 'trace-1'), undefined);
  });

  t.test('stores the raw batch with its observations, once', async (t) => {
    const { store } = await open.shared();
    const body = Buffer.from('{"events":[{},{}]}');
    const source = rawBatch('native', body, 3, {
      positions: [0, 2],
      rejections: [{ index: 1, code: 'invalid_event', reason: 'events[1]' }],
    });
    const list = [anObservation({ index: 0 }), anObservation({ id: 'second', index: 2 })];
    const batch: ObservationBatch = { kind: 'observations', source, observations: list };
    await store.traces.write(batch);
    await store.traces.write(batch);
    const [kept, ...more] = await store.traces.getBatches(P, [source.id, 'none']);
    t.same(
      [kept?.body, kept?.positions, kept?.rejections, more],
      [body, [0, 2], source.rejections, []],
    );
    const second = await store.traces.getObservation(P, 'second', 'trace-1');
    t.same(second?.payload.inputs, { batchId: source.id, position: 1 }, 'positions are the body’s');
  });

  t.test('does not store a batch again that a queue of the store holds', async (t) => {
    const { store } = await open(t);
    const queue = await store.openQueue({ name: 'q', branches: ['a'], maxBytes: 1e9 });
    const source = nativeBatch(1);
    await queue.append(source);
    await store.traces.write({ kind: 'observations', source, observations: [anObservation()] });
    await queue.ack('a', await queue.lease('a', 9, 1e9));
    const [kept] = await store.traces.getBatches(P, [source.id]);
    t.same(kept?.body, source.body, 'and stays when the queue is done with it');
  });

  t.test('finds the newest observation if several traces have the id', async (t) => {
    const { store } = await open.shared();
    await write(store, [anObservation({ traceId: 'old' })], { receivedAt: T0 });
    await write(store, [anObservation({ traceId: 'new' })], { receivedAt: T0 + 1 });
    t.equal((await store.traces.getObservation(P, 'observation-1'))?.traceId, 'new');
    t.equal(await store.traces.getObservation(P, 'observation-1', 'none'), undefined);
    t.equal(await store.traces.getObservation(P, 'none'), undefined);
  });
}
