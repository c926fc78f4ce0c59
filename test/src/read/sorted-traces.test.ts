import type { Test } from 'tap';
import t from 'tap';
import { offer } from '../../../src/component/capability.ts';
import type { Store } from '../../../src/store/store.ts';
import { STORE } from '../../../src/store/store.ts';
import { fakeRanks } from '../../helper/fake-ranks.ts';
import { aTrace, fakeTraces } from '../../helper/fake-traces.ts';
import { testListeners, USUAL_LIMITS, urlOf } from '../../helper/http.ts';
import { createSink, sinkPipeline } from '../../helper/sink.ts';

/** A listener whose pipeline names a store with the traces. */
async function reading(t: Test, latencies: readonly (number | null)[]) {
  const held = { traces: latencies.map((latencyMs, i) => aTrace({ id: `t${i}`, latencyMs })) };
  const project = () => 'proj_test';
  const traces = fakeTraces(project, held);
  const store = { traces, ranks: fakeRanks(project, held) } as Partial<Store>;
  const listeners = testListeners();
  const pipeline = sinkPipeline(createSink(), { offers: [offer(STORE, store as Store)] });
  const entrance = { pipeline, fallback: undefined };
  const listener = await listeners.bind('127.0.0.1:0', USUAL_LIMITS, entrance);
  await listener.open();
  t.teardown(async () => {
    await listener.close(AbortSignal.abort());
    await listeners.close();
  });
  return async (query: string) => {
    const answer = await fetch(`${urlOf(listener)}/api/v1/traces?${query}`);
    const body = (await answer.json()) as Readonly<Record<string, unknown>> & {
      readonly traces?: readonly { readonly id: string }[];
    };
    return { status: answer.status, body, ids: body.traces?.map(({ id }) => id) };
  };
}

t.test('lists traces in the order of a value, page by page', async (t) => {
  const get = await reading(t, [10, 30, null, 20]);
  const { ids, body } = await get('sort=latency');
  t.same(ids, ['t1', 't3', 't0', 't2']);
  t.match(body, { next_cursor: null, searched_to: null, partial: false });
  t.same((await get('sort=latency&order=desc')).ids, ids);
  const first = await get('sort=latency&limit=2');
  t.same(first.ids, ['t1', 't3']);
  const rest = await get(`sort=latency&limit=2&cursor=${first.body.next_cursor}`);
  t.same(rest.ids, ['t0', 't2']);
  t.equal(rest.body.next_cursor, null);
});

t.test('a cursor belongs to its query, sort and order', async (t) => {
  const get = await reading(t, [1, 2, 3]);
  const cursor = (await get('sort=latency&limit=1')).body.next_cursor;
  const others = ['sort=cost', 'sort=latency&order=asc', 'sort=latency&q=x', 'order=desc', ''];
  for (const other of others) {
    const { status, body } = await get(`${other}&cursor=${cursor}`);
    t.match({ status, code: body.code }, { status: 400, code: 'invalid_cursor' }, other);
  }
  const broken = `${String(cursor).slice(0, -4)}xxxx`;
  const { status, body } = await get(`sort=latency&cursor=${broken}`);
  t.match({ status, code: body.code }, { status: 400, code: 'invalid_cursor' }, 'broken');
  const byStart = (await get('limit=1')).body.next_cursor;
  t.equal((await get(`order=asc&cursor=${byStart}`)).status, 400);
});

t.test('refuses another sort or order', async (t) => {
  const get = await reading(t, []);
  for (const query of ['sort=name', 'order=up', 'sort=cost&sort=cost']) {
    const { status, body } = await get(query);
    t.match({ status, code: body.code }, { status: 400, code: 'invalid_request' }, query);
  }
});
