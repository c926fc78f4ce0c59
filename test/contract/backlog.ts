import type { Test } from 'tap';
import { LOOKED_AT } from '../../src/store/backlog.ts';
import type { Store } from '../../src/store/store.ts';
import { anObservation, aTenant, nativeBatch, testProject as P } from '../helper/batches.ts';

type Opens = (t: Test) => Promise<{ store: Store }>;

/** The rules for what a client waits for. `exporter`: the type of the exporter that leads into the store. */
export function backlog(t: Test, open: Opens): void {
  const queueOf = async (store: Store) => {
    const branches = ['traces/store/sqlite', 'traces/store/postgres/main', 'traces/out/otlphttp'];
    const queue = await store.openQueue({ name: 'q', branches, maxBytes: 1e9 });
    const end = async (branch: string, max = 9) =>
      queue.ack(branch, await queue.lease(branch, max, 1e9));
    return {
      queue,
      /** Processes the oldest entries of the branches that lead into a store. */
      async process(max?: number) {
        await end('traces/store/sqlite', max);
        await end('traces/store/postgres/main', max);
      },
    };
  };

  t.test('the backlog of a project has the entries that wait for the store', async (t) => {
    const { store } = await open(t);
    const { queue, process } = await queueOf(store);
    t.equal(await store.backlog.newest(P), null);
    await queue.append(nativeBatch(1, { tenant: aTenant({ projectId: 'proj_other' }) }));
    t.equal(await store.backlog.newest(P), null, 'of another project');
    await queue.append(nativeBatch(1));
    const first = await store.backlog.newest(P);
    if (first === null) throw new Error('an entry waits');
    await queue.append(nativeBatch(1));
    const second = await store.backlog.newest(P);
    t.not(second, first);
    t.equal(await store.backlog.newest(P, first), first);
    await process(2);
    t.equal(await store.backlog.newest(P, first), null, 'a later entry does not count');
    t.equal(await store.backlog.newest(P), second);
    await process();
    t.equal(await store.backlog.newest(P), null, 'entries for other exporters do not count');
  });

  t.test('a look at the backlog is bounded', async (t) => {
    const { store } = await open(t);
    const { queue, process } = await queueOf(store);
    const others = { tenant: aTenant({ projectId: 'proj_other' }) };
    await Promise.all(
      Array.from({ length: LOOKED_AT }, () => queue.append(nativeBatch(1, others))),
    );
    t.equal(await store.backlog.newest(P), null, 'every entry is looked at');
    await queue.append(nativeBatch(1, others));
    const mark = await store.backlog.newest(P);
    if (mark === null) throw new Error('beyond the bound a project waits for all');
    await process(1);
    t.equal(await store.backlog.newest(P, mark), null);
  });

  t.test('the sources of a trace are the events that its fields are from', async (t) => {
    const { store } = await open(t);
    const write = async (more: Parameters<typeof anObservation>[0]) => {
      const source = nativeBatch(1);
      await store.traces.write({
        kind: 'observations',
        source,
        observations: [anObservation(more)],
      });
      return { batchId: source.id, position: 0 };
    };
    const start = await write({ version: '1', operation: 'start', name: 'a', model: 'm' });
    await write({ version: '2', name: 'b', model: null });
    const end = await write({ version: '3', name: 'c', model: null });
    const other = await write({ id: 'o-2' });
    const read = (cursor?: string) =>
      store.traces.listSources(P, 'trace-1', { limit: 1, ...(cursor && { cursor }) });
    const first = await read();
    const [source] = first.items;
    t.match(source?.observation, { name: 'c', model: 'm' });
    const byId = (a: { batchId: string }, b: { batchId: string }) =>
      a.batchId < b.batchId ? -1 : 1;
    t.same(
      source?.events.toSorted(byId),
      [start, end].sort(byId),
      'an event without a field is none',
    );
    const last = await read(first.nextCursor ?? '');
    t.match(last, { items: [{ observation: { id: 'o-2' }, events: [other] }], nextCursor: null });
  });
}
