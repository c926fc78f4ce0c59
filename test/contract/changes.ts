import type { Test } from 'tap';
import { MATCHED_IDS } from '../../src/store/plan/match.ts';
import { MAX_SUMMARIZED } from '../../src/store/rows/written-trace.ts';
import type { Store } from '../../src/store/store.ts';
import { anObservation, aTenant, testProject as P, rawBatch } from '../helper/batches.ts';
import { aQuery } from '../helper/query.ts';

type Opens = (t: Test) => Promise<{ store: Store; finish(): Promise<void> }>;

/** The rules for changed traces, and for the ones among them that match a query. */
export function changes(t: Test, open: Opens): void {
  const write = (store: Store, observations: ReturnType<typeof anObservation>[], projectId = P) => {
    const source = rawBatch('runs', Buffer.from('{}'), observations.length, {
      tenant: aTenant({ projectId }),
    });
    const numbered = observations.map((one, index) => ({ ...one, index }));
    return store.traces.write({ kind: 'observations', source, observations: numbered });
  };

  t.test('a listener gets the traces that each write changes', async (t) => {
    const { store } = await open(t);
    const heard: string[][] = [];
    await write(store, [anObservation({ traceId: 'before' })]);
    const unwatch = store.changes.watch(P, (ids) => heard.push([...ids].sort()));
    const long = 'é'.repeat(500);
    const take = () => heard.splice(0);
    await write(store, [
      anObservation({ traceId: 'a', id: 'a1' }),
      anObservation({ traceId: 'a', id: 'a2' }),
      anObservation({ traceId: long, id: 'long' }),
    ]);
    t.same(take(), [['a', long]]);
    await write(store, [anObservation({ traceId: 'a', id: 'a1', version: '2' })]);
    t.same(take(), [['a']], 'an observation has changed');
    await write(store, [anObservation({ traceId: null, id: 'a1', version: '3' })]);
    t.same(take(), [['a']], 'an update that names no trace');
    await write(store, [anObservation({ traceId: null, id: 'a3', parentId: 'a2' })]);
    t.same(take(), [['a']], 'a child that names no trace');
    await write(store, [anObservation({ traceId: 'x' })], 'proj_other');
    t.same(take(), [], 'another project');
    unwatch();
    unwatch();
    await write(store, [anObservation({ traceId: 'a', id: 'a4' })]);
    t.same(take(), []);
  });

  t.test('a summary that the background makes is a change', async (t) => {
    const { store, finish } = await open(t);
    const long = 'é'.repeat(500);
    for (const traceId of ['large', long]) {
      const all = Array.from({ length: MAX_SUMMARIZED + 1 }, (_, i) =>
        anObservation({ traceId, id: `${traceId.slice(0, 5)}-${i}` }),
      );
      for (let i = 0; i < all.length; i += 100) await write(store, all.slice(i, i + 100));
    }
    const heard = new Set<string>();
    const unwatch = store.changes.watch(P, (ids) => {
      for (const id of ids) heard.add(id);
    });
    await finish();
    unwatch();
    t.same([...heard].sort(), ['large', long]);
    t.equal((await store.traces.getTrace(P, long))?.observationCount, MAX_SUMMARIZED + 1);
  });

  t.test('the traces among some that match a query are found by their ids', async (t) => {
    const { store } = await open(t);
    const ids = Array.from({ length: MATCHED_IDS }, (_, i) => `t${i}`);
    await write(
      store,
      ids.map((traceId, i) =>
        anObservation({ traceId, id: `o${i}`, name: `n${i % 2}`, sessionId: i < 10 ? 's' : null }),
      ),
    );
    await write(store, [anObservation({ traceId: 't1', id: 'x' })], 'proj_other');
    const find = async (query: string, wanted: readonly string[], project = P) =>
      (await store.traces.findMatching(project, aQuery(query), wanted)).map(({ id }) => id).sort();
    t.same(await find('', ids), ids.toSorted(), 'as many as a statement takes');
    t.same(await find('', []), []);
    t.same(await find('name:n1', ['t1', 't2', 't3', 'none']), ['t1', 't3']);
    t.same(await find('session:s name:n0', ['t1', 't2', 't12']), ['t2']);
    t.same(await find('-name:n1', ['t1', 't2']), ['t2']);
    t.same(await find('span:n1', ['t1', 't2']), ['t1']);
    t.same(await find('', ['t1', 't2'], 'proj_other'), ['t1']);
  });
}
