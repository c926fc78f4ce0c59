import type { Test } from 'tap';
import type { ObservationBatch, SealedBatch } from '../../src/model/batch.ts';
import { observe, payload } from '../../src/model/formats.ts';
import type { Store } from '../../src/store/store.ts';
import { aTenant, nativeBatch, nativeEvent, rawBatch } from '../helper/batches.ts';
import { aQuery } from '../helper/query.ts';
import type { OpenForErasures } from './erasures.ts';

const DAY_MS = 86_400_000;
const BY = { actor: 'admin-token', address: '127.0.0.1' };

function event(trace: string, user: string, i = 0): Record<string, unknown> {
  return {
    ...{ id: `${trace}-${i}`, trace_id: trace, name: `name of ${trace}` },
    ...{ inputs: `input of ${trace}-${i}`, metadata: { user_id: user } },
  };
}

function batchOf(
  events: readonly Record<string, unknown>[],
  projectId: string,
  receivedAt: number,
): SealedBatch {
  return nativeBatch(events.map(nativeEvent), { tenant: aTenant({ projectId }), receivedAt });
}

function observed(source: SealedBatch): ObservationBatch {
  return { kind: 'observations', source, observations: observe(source) };
}

async function projectOf(store: Store): Promise<string> {
  const [project] = await store.projects.list();
  const id = project?.id ?? '';
  await store.projects.update(id, { retentionDays: 10 });
  return id;
}

async function bodyOf(store: Store, project: string, id: string): Promise<string | undefined> {
  const [batch] = await store.traces.getBatches(project, [id]);
  return batch?.body.toString();
}

/** The rules for batches that a kept trace shares with an expired one. */
export function expiredItems(t: Test, open: OpenForErasures): void {
  /** A store in which a trace "gone" is expired and removed, and a trace "kept" has events of its batch. */
  async function withSharedBatch(
    t: Test,
    batch = (projectId: string, at: number) =>
      batchOf([event('gone', 'doomed'), event('kept', 'other')], projectId, at),
    before: (store: Store, batch: ObservationBatch) => Promise<void> = async () => {},
  ) {
    const place = await open(t);
    const { store, clock, finish } = place;
    const project = await projectOf(store);
    const source = batch(project, clock.now());
    await before(store, observed(source));
    await store.traces.write(observed(source));
    clock.set(clock.now() + 9 * DAY_MS);
    await store.traces.write(observed(batchOf([event('kept', 'other', 1)], project, clock.now())));
    clock.set(clock.now() + 2 * DAY_MS);
    await finish();
    t.match(await store.traces.listTraces(project, { limit: 9 }), { items: [{ id: 'kept' }] });
    return { ...place, project, source };
  }

  t.test('an erasure cuts out the items of traces that expired before', async (t) => {
    const { store, clock, finish, project, source } = await withSharedBatch(t);
    t.match(await bodyOf(store, project, source.id), 'input of gone', 'cut a day later');
    const query = aQuery('user:doomed');
    const { id } = await store.erasures.request(project, { query, isDryRun: false }, BY);
    await finish();
    t.match(await store.erasures.get(project, id), { state: 'done', traces: 0, bytes: 0 });
    const body = await bodyOf(store, project, source.id);
    t.match(body, 'input of kept-0');
    t.notMatch(body, /gone|doomed/);
    const found = await store.traces.getObservation(project, 'kept-0', 'kept');
    t.match(found, { payload: { inputs: { batchId: source.id, position: 1 } } });
    clock.set(clock.now() + 9 * DAY_MS);
    await finish();
    t.equal(await bodyOf(store, project, source.id), undefined, 'it goes with the kept trace');
  });

  t.test('items of expired traces are cut out a day later, also after a crash', async (t) => {
    const { clock, finish, reopen, project, source } = await withSharedBatch(t);
    clock.set(clock.now() + DAY_MS);
    const after = await reopen('crash');
    await finish();
    const body = await bodyOf(after, project, source.id);
    t.match(body, 'input of kept-0');
    t.notMatch(body, /gone|doomed/);
  });

  t.test('items of kept traces stay whatever their ids are', async (t) => {
    const odd = [
      'a\\b',
      ':colon',
      'é',
      'x'.repeat(200),
      '\\x41',
      '%',
      '\ufffd',
      '\u{1f600}',
      'a b',
    ];
    const events = [event('gone', 'doomed'), ...odd.map((id) => event(id, 'other'))];
    const { store, clock, finish } = await open(t);
    const project = await projectOf(store);
    const source = batchOf(events, project, clock.now());
    await store.traces.write(observed(source));
    clock.set(clock.now() + 9 * DAY_MS);
    const later = odd.map((id) => event(id, 'other', 1));
    await store.traces.write(observed(batchOf(later, project, clock.now())));
    for (let day = 0; day < 3; day++) {
      clock.set(clock.now() + DAY_MS);
      await finish();
    }
    const [batch] = await store.traces.getBatches(project, [source.id]);
    t.match(batch, { items: odd.length, gaps: [0] });
  });

  t.test('items are cut out of a large batch, also after a crash', async (t) => {
    const long = (trace: string, i: number) => ({
      ...event(trace, trace === 'gone' ? 'doomed' : 'other', i),
      inputs: `input of ${trace}-${i} `.repeat(30_000),
    });
    const events = [0, 1, 2, 3].flatMap((i) => [long('gone', i), long('kept', i + 10)]);
    const { store, clock, finish, reopen, project, source } = await withSharedBatch(t, (id, at) =>
      batchOf(events, id, at),
    );
    const whole = await store.traces.getBatches(project, [source.id]);
    t.equal(whole[0]?.items, 8);
    clock.set(clock.now() + DAY_MS);
    await finish();
    const after = await reopen('crash');
    const [batch] = await after.traces.getBatches(project, [source.id]);
    t.match(batch, { items: 4, gaps: [0, 2, 4, 6] });
    t.notMatch(batch?.body.toString(), /gone|doomed/);
    for (const i of [0, 1, 2, 3]) {
      const { inputs } = batch === undefined ? {} : payload(batch, i);
      t.equal(inputs, JSON.stringify(long('kept', i + 10).inputs));
    }
  });

  t.test('an erasure of another project leaves the batch', async (t) => {
    const { store, finish, project, source } = await withSharedBatch(t);
    const other = await store.projects.create('other');
    const query = aQuery('user:doomed');
    await store.erasures.request(other.id, { query, isDryRun: false }, BY);
    await finish();
    t.match(await bodyOf(store, project, source.id), 'input of gone');
  });

  t.test('a trace that came back does not keep its expired items', async (t) => {
    const { store, clock, finish, project, source } = await withSharedBatch(t);
    await store.traces.write(observed(batchOf([event('gone', 'doomed', 7)], project, clock.now())));
    clock.set(clock.now() + DAY_MS);
    await finish();
    const { items } = await store.traces.listObservations(project, 'gone', { limit: 10 });
    t.match(items, [{ id: 'gone-7' }]);
    const body = await bodyOf(store, project, source.id);
    t.match(body, 'input of kept-0');
    t.notMatch(body, 'gone');
  });

  t.test('a batch that waits in a queue stays whole until it is delivered', async (t) => {
    const events = [event('gone', 'doomed'), event('kept', 'other')];
    const { store, clock, finish, project, source } = await withSharedBatch(
      t,
      (id, at) => batchOf(events, id, at),
      async (store, { source }) => {
        const queue = await store.openQueue({ name: 'q', branches: ['x'], maxBytes: 1e9 });
        await queue.append(source);
      },
    );
    const queue = await store.openQueue({ name: 'q', branches: ['x'], maxBytes: 1e9 });
    clock.set(clock.now() + DAY_MS);
    await finish();
    const leased = await queue.lease('x', 1, 1e9);
    t.match(leased[0]?.batch.body.toString(), 'input of gone-0');
    await queue.ack('x', leased);
    clock.set(clock.now() + DAY_MS);
    await finish();
    const body = await bodyOf(store, project, source.id);
    t.match(body, 'input of kept-0');
    t.notMatch(body, 'gone');
  });

  t.test('a copy that another queue kept whole brings no cut item back', async (t) => {
    const { clock, finish, reopen, project, source } = await withSharedBatch(t);
    clock.set(clock.now() + DAY_MS);
    await finish();
    const after = await reopen('crash');
    await after.traces.write(observed(source));
    const { items } = await after.traces.listObservations(project, 'kept', { limit: 10 });
    t.match(items, [{ id: 'kept-0', payload: { inputs: { batchId: source.id, position: 1 } } }]);
    await after.projects.update(project, { retentionDays: null });
    t.equal(await after.traces.getTrace(project, 'gone'), undefined);
  });

  t.test('updates that name no trace stay with the trace of their run', async (t) => {
    const run = (trace: string) => ({
      ...{ id: `run of ${trace}`, trace_id: trace, name: trace, run_type: 'chain' },
      ...{ start_time: '2026-01-15T12:00:00Z', inputs: { text: `input of ${trace}` } },
    });
    const update = (trace: string) => ({
      ...{ id: `run of ${trace}`, end_time: '2026-01-15T12:00:01Z' },
      outputs: { text: `output of ${trace}` },
    });
    const names = ['gone', 'kept'];
    const body = { post: names.map(run), patch: names.map(update) };
    const { store, clock, finish, project, source } = await withSharedBatch(t, (projectId, at) =>
      rawBatch('runs', Buffer.from(JSON.stringify(body)), 4, {
        tenant: aTenant({ projectId }),
        receivedAt: at,
      }),
    );
    clock.set(clock.now() + DAY_MS);
    await finish();
    const left = await bodyOf(store, project, source.id);
    t.match(left, 'input of kept');
    t.match(left, 'output of kept');
    t.notMatch(left, 'gone');
  });

  t.test('an update that waits for its run keeps the batch whole until it expires', async (t) => {
    const lone = { id: 'lone run', end_time: '2026-01-15T12:00:01Z', outputs: { text: 'lone' } };
    const body = {
      post: ['gone', 'kept'].map((trace) => ({
        ...{ id: trace, trace_id: trace, name: trace, run_type: 'chain' },
        ...{ start_time: '2026-01-15T12:00:00Z', inputs: { text: `input of ${trace}` } },
      })),
      patch: [lone],
    };
    const { store, clock, finish, project, source } = await withSharedBatch(t, (projectId, at) =>
      rawBatch('runs', Buffer.from(JSON.stringify(body)), 3, {
        tenant: aTenant({ projectId }),
        receivedAt: at,
      }),
    );
    // Waiting updates are looked at once a day.
    for (let day = 0; day < 2; day++) {
      clock.set(clock.now() + DAY_MS);
      await finish();
    }
    const left = await bodyOf(store, project, source.id);
    t.match(left, 'input of kept');
    t.notMatch(left, /gone|lone/);
  });
}
