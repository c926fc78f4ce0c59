import type { Test } from 'tap';
import type { ObservationBatch, SealedBatch } from '../../src/model/batch.ts';
import { RetryableError } from '../../src/model/errors.ts';
import { observe } from '../../src/model/formats.ts';
import { takeDropped } from '../../src/model/verbs.ts';
import type { ItemErasing, QueueAdmin } from '../../src/queue/queue.ts';
import { DeliveryUnderWay } from '../../src/queue/queue.ts';
import { UNNAMED } from '../../src/store/changes.ts';
import type { Erasure } from '../../src/store/erasures.ts';
import type { Store } from '../../src/store/store.ts';
import { anObservation, aTenant, nativeBatch, nativeEvent, received } from '../helper/batches.ts';
import type { FakeClock } from '../helper/clock.ts';
import { aQuery } from '../helper/query.ts';

export type OpenForErasures = (t: Test) => Promise<{
  clock: FakeClock;
  store: Store;
  finish(): Promise<void>;
  reopen(how?: 'close' | 'crash'): Promise<Store>;
}>;

const BY = { actor: 'admin-token', address: '127.0.0.1' };

/** A batch of events of several traces and users. */
function batchOf(
  events: readonly Record<string, unknown>[],
  projectId: string,
  receivedAt: number,
): SealedBatch {
  const tenant = aTenant({ projectId });
  return nativeBatch(events.map(nativeEvent), { tenant, receivedAt });
}

function observed(source: SealedBatch): ObservationBatch {
  return { kind: 'observations', source, observations: observe(source) };
}

function event(trace: string, user: string, i = 0): Record<string, unknown> {
  return {
    ...{ id: `${trace}-${i}`, trace_id: trace, name: `name of ${trace}` },
    ...{ inputs: `input of ${trace}-${i}`, metadata: { user_id: user } },
  };
}

async function projectOf(store: Store): Promise<string> {
  const [project] = await store.projects.list();
  return project?.id ?? '';
}

async function idsOf(store: Store, projectId: string): Promise<string[]> {
  const { items } = await store.traces.listTraces(projectId, { limit: 100 });
  return items.map(({ id }) => id).sort();
}

async function erase(
  store: Store,
  projectId: string,
  query: string,
  isDryRun = false,
): Promise<Erasure> {
  return store.erasures.request(projectId, { query: aQuery(query), isDryRun }, BY);
}

/** The rules for erasures in every store. */
export function erasures(t: Test, open: OpenForErasures): void {
  t.test('a listener gets the traces that an erasure removes, and none of a dry run', async (t) => {
    const { store, clock, finish } = await open(t);
    const project = await projectOf(store);
    const long = 'x'.repeat(65);
    const events = [event('trace-a', 'doomed'), event(long, 'doomed'), event('trace-b', 'other')];
    await store.traces.write(observed(batchOf(events, project, clock.now())));
    clock.set(clock.now() + 1000);
    const heard: string[] = [];
    t.teardown(store.changes.watch(project, (ids) => heard.push(...ids)));
    await erase(store, project, 'user:doomed', true);
    await finish();
    t.same(heard, []);
    await erase(store, project, 'user:doomed');
    await finish();
    t.same(heard.sort(), [UNNAMED, 'trace-a'], 'an erasure keeps no id of more than 64 characters');
  });

  t.test('an erasure removes the traces that its query finds, and no other', async (t) => {
    const { store, clock, finish } = await open(t);
    const project = await projectOf(store);
    const events = ['a', 'b', 'c', 'a'].map((name, i) =>
      event(`trace-${name}`, name === 'b' ? 'other' : 'doomed', i),
    );
    const source = batchOf(events, project, clock.now());
    await store.traces.write(observed(source));
    clock.set(clock.now() + 1000);
    const { id, ...asked } = await erase(store, project, 'user:doomed');
    t.match(asked, {
      ...{ projectId: project, query: 'user:doomed', state: 'running', isDryRun: false },
      ...{ requestedBy: 'admin-token', requestedAt: clock.now(), receipt: null },
    });
    await finish();
    t.same(await idsOf(store, project), ['trace-b']);
    const [batch] = await store.traces.getBatches(project, [source.id]);
    t.same(batch?.gaps, [0, 2, 3]);
    t.equal(batch?.items, 1);
    t.match(batch?.body.toString(), 'input of trace-b-1');
    t.notMatch(batch?.body.toString(), /input of trace-[ac]/);
    const done = await store.erasures.get(project, id);
    const bytes = events
      .filter((_, i) => i !== 1)
      .reduce((sum, each) => sum + JSON.stringify(nativeEvent(each)).length, 0);
    t.match(done, { state: 'done', traces: 2, observations: 3, bytes });
    t.match(done?.receipt, { traces: 2, observations: 3, bytes, unreadableBatches: 0 });
    t.match(done?.receipt?.idsHash, /^[0-9a-f]{64}$/);
    t.match(done?.query, /^user:[0-9a-f]{64}$/, 'the values are gone');
    const { items } = await store.audit.list({ limit: 2 });
    t.match(items, [
      { action: 'erasure.finish', subject: id, details: { traces: 2, project } },
      { action: 'erasure.create', subject: id, actor: 'admin-token', address: '127.0.0.1' },
    ]);
    t.notMatch(JSON.stringify(items), 'doomed');
  });

  t.test(
    'an erasure that a delivery holds up lets others go first, and goes on later',
    async (t) => {
      const { store, clock, finish } = await open(t);
      const project = await projectOf(store);
      for (const name of ['a', 'b']) {
        const source = batchOf([event(name, `user of ${name}`)], project, clock.now());
        await store.traces.write(observed(source));
      }
      const waits: number[] = [];
      const inDelivery = new Set(['a']);
      const queue = {
        async *eraseItems({ waitMs, rest }: ItemErasing) {
          for (const name of inDelivery) {
            const waiting = batchOf([event(name, 'waiting')], project, clock.now());
            if ((await rest(waiting)) === undefined) continue;
            waits.push(waitMs);
            throw new DeliveryUnderWay('a worker delivers a job of the queue "q"');
          }
          yield;
        },
      };
      store.erasures.useQueues(() => [queue as unknown as QueueAdmin]);
      clock.set(clock.now() + 1000);
      const [first, second] = [
        await erase(store, project, 'id:a'),
        await erase(store, project, 'id:b'),
      ];
      await finish();
      const states = async () => {
        const both = [first, second].map(({ id }) => store.erasures.get(project, id));
        return (await Promise.all(both)).map((one) => [one?.state, one?.failure]);
      };
      const waiting = ['running', 'a worker delivers a job of the queue "q"'];
      t.same(await states(), [waiting, ['done', null]]);
      clock.set(clock.now() + 59_999);
      await finish();
      t.equal(waits.length, 1, 'it is not tried again at once');
      clock.set(clock.now() + 1);
      await finish();
      t.same(await states(), [waiting, ['done', null]]);
      t.same(waits, [5 * 60_000, 5_000]);
      inDelivery.clear();
      clock.set(clock.now() + 60_000);
      await finish();
      t.same(await states(), [
        ['done', null],
        ['done', null],
      ]);
      t.same(await idsOf(store, project), []);
    },
  );

  t.test('users with different unpaired surrogates are different users', async (t) => {
    const { store, clock, finish } = await open(t);
    const project = await projectOf(store);
    const users = ['u\ud800', 'u\udbff', 'u\ufffd', 'u\ud83d\ude00'];
    const events = users.map((user, i) => event(`trace-${i}`, user));
    await store.traces.write(observed(batchOf(events, project, clock.now())));
    for (const [i, user] of users.entries()) {
      const query = aQuery(`user:"${user}"`);
      const { items } = await store.traces.listTraces(project, { limit: 9, query });
      t.same(
        items.map(({ id }) => id),
        [`trace-${i}`],
        JSON.stringify(user),
      );
    }
    clock.set(clock.now() + 1000);
    const request = { query: aQuery('user:u\ud800'), isDryRun: false };
    const until = { blockUntil: clock.now() + 3_600_000 };
    await store.erasures.request(project, { ...request, ...until }, BY);
    await finish();
    t.same(await idsOf(store, project), ['trace-1', 'trace-2', 'trace-3']);
    const next = received(batchOf(events, project, clock.now()));
    await store.erasures.blocks.apply(next, clock);
    t.same([...(takeDropped(next) ?? [])], [['erasure_block', 1]]);
  });

  t.test('an erasure that fails holds up no other', async (t) => {
    const { store, clock, finish } = await open(t);
    const project = await projectOf(store);
    for (const name of ['a', 'b']) {
      const source = batchOf([event(name, `user of ${name}`)], project, clock.now());
      await store.traces.write(observed(source));
    }
    let isAway = true;
    const queue = {
      async *eraseItems({ rest }: ItemErasing) {
        const waiting = batchOf([event('a', 'waiting')], project, clock.now());
        if (isAway && (await rest(waiting)) !== undefined) throw new Error('the queue is away');
        yield;
      },
    };
    store.erasures.useQueues(() => [queue as unknown as QueueAdmin]);
    clock.set(clock.now() + 1000);
    const both = [await erase(store, project, 'id:a'), await erase(store, project, 'id:b')];
    const states = () =>
      Promise.all(both.map(async ({ id }) => (await store.erasures.get(project, id))?.state));
    await t.rejects(finish(), { message: 'the queue is away' });
    t.same(await states(), ['running', 'done']);
    isAway = false;
    await finish();
    t.same(await states(), ['done', 'done']);
    t.same(await idsOf(store, project), []);
  });

  t.test(
    'a batch that is delivered between the search and the look at its queue is erased',
    async (t) => {
      const { store, clock, finish } = await open(t);
      const project = await projectOf(store);
      const waiting = [batchOf([event('trace-a', 'doomed')], project, clock.now())];
      const queue = {
        async *eraseItems() {
          const source = waiting.pop();
          if (source !== undefined) await store.traces.write(observed(source));
          yield;
        },
      };
      store.erasures.useQueues(() => [queue as unknown as QueueAdmin]);
      clock.set(clock.now() + 1000);
      const { id } = await erase(store, project, 'user:doomed');
      await finish();
      t.match(await store.erasures.get(project, id), { state: 'done', traces: 1 });
      t.same(await idsOf(store, project), []);
    },
  );

  t.test(
    'the store is erased while the disk of a queue has no room to remove its log',
    async (t) => {
      const { store, clock, finish } = await open(t);
      const project = await projectOf(store);
      await store.traces.write(observed(batchOf([event('a', 'doomed')], project, clock.now())));
      let isFull = true;
      const queue = {
        async *eraseItems() {
          yield;
        },
        async *sweepErased() {
          if (isFull) throw new RetryableError('disk_full', 'database or disk is full');
          yield;
        },
      };
      store.erasures.useQueues(() => [queue as unknown as QueueAdmin]);
      clock.set(clock.now() + 1000);
      const { id } = await erase(store, project, 'user:doomed');
      await t.rejects(finish(), { code: 'disk_full' });
      t.same(await idsOf(store, project), []);
      t.match(await store.erasures.get(project, id), { state: 'running', traces: 1 });
      isFull = false;
      await finish();
      t.match(await store.erasures.get(project, id), { state: 'done', traces: 1 });
    },
  );

  t.test('a dry run counts, and changes nothing', async (t) => {
    const { store, clock, finish } = await open(t);
    const project = await projectOf(store);
    const events = [event('a', 'u'), event('b', 'v'), event('a', 'u', 1)];
    await store.traces.write(observed(batchOf(events, project, clock.now())));
    const { id } = await erase(store, project, 'user:u', true);
    await finish();
    const counted = await store.erasures.get(project, id);
    t.match(counted, { state: 'counted', isDryRun: true, traces: 1, observations: 2 });
    t.ok((counted?.bytes ?? 0) > 300);
    t.equal(counted?.receipt, null);
    const { items } = await store.audit.list({ limit: 1 });
    t.match(items, [{ action: 'erasure.create', details: { dry_run: true } }]);
    t.same(await idsOf(store, project), ['a', 'b']);
    const real = await erase(store, project, 'user:u');
    await finish();
    t.equal((await store.erasures.get(project, real.id))?.bytes, counted?.bytes);
  });

  t.test('what waits in queues is erased, and so are dead letters', async (t) => {
    const { store, clock, finish } = await open(t);
    const project = await projectOf(store);
    const queue = await store.openQueue({ name: 'q', branches: ['x', 'y'], maxBytes: 1e9 });
    const sources = [
      [event('a', 'u'), event('b', 'v')],
      [event('c', 'u')],
      [event('d', 'v'), event('a', 'u', 1)],
    ].map((events) => batchOf(events, project, clock.now()));
    for (const source of sources) {
      await queue.append(source);
      await store.traces.write(observed(source));
    }
    const [dead] = await queue.lease('y', 1, 1e9);
    if (dead !== undefined) await queue.deadLetter('y', dead, { code: 'bad', message: 'u' });
    const drops: object[] = [];
    queue.onDrop((drop) => drops.push(drop));
    await erase(store, project, 'user:u');
    await finish();
    t.same(await idsOf(store, project), ['b', 'd']);
    const left = await queue.lease('x', 10, 1e9);
    t.same(
      left.map(({ batch }) => observe(batch).map(({ id }) => id)),
      [['b-0'], ['d-0']],
    );
    t.match(await queue.deadLetters(), [{ items: 1 }]);
    t.notMatch((await queue.deadLetters())[0]?.reason.message, 'u ');
    const stats = queue.stats();
    t.match(stats, { deadLetters: 1, deadLetterItems: 1 });
    t.match(stats.branches, [
      { branch: 'x', entries: 2, items: 2 },
      { branch: 'y', entries: 1, items: 1 },
    ]);
    t.equal(drops.length, 6);
    await queue.ack('x', left);
    t.equal(await queue.replay('all'), 1);
    const replayed = await queue.lease('y', 10, 1e9);
    t.same(replayed.flatMap(({ batch }) => observe(batch).map(({ id }) => id)).sort(), [
      'b-0',
      'd-0',
    ]);
  });

  t.test(
    'an erasure finds its items between many batches that wait for another user',
    async (t) => {
      const { store, clock, finish } = await open(t);
      const project = await projectOf(store);
      const queue = await store.openQueue({ name: 'q', branches: ['x'], maxBytes: 1e9 });
      const erased = new Set([0, 49, 50, 51, 102, 119]);
      for (let i = 0; i < 120; i++) {
        const user = erased.has(i) ? 'u' : 'v';
        await queue.append(
          batchOf([event(`t${i}`, user), event(`s${i}`, 'v')], project, clock.now()),
        );
      }
      const dry = await erase(store, project, 'user:u', true);
      const { id } = await erase(store, project, 'user:u');
      await finish();
      const { bytes } = (await store.erasures.get(project, id)) ?? {};
      t.ok(Number(bytes) > 6 * 100);
      t.match(await store.erasures.get(project, dry.id), { state: 'counted', bytes });
      const left = await queue.lease('x', 200, 1e9);
      t.same(
        left.map(({ batch }) => observe(batch).map(({ traceId }) => traceId)),
        left.map((_, i) => (erased.has(i) ? [`s${i}`] : [`t${i}`, `s${i}`])),
      );
      t.equal(left.length, 120);
    },
  );

  t.test('items of a trace that the store has no row of are erased from the queues', async (t) => {
    const { store, clock, finish } = await open(t);
    const project = await projectOf(store);
    const queue = await store.openQueue({ name: 'q', branches: ['x'], maxBytes: 1e9 });
    const child = { ...event('a', 'u', 1), metadata: {} };
    await queue.append(batchOf([event('b', 'v'), child], project, clock.now()));
    await queue.append(batchOf([event('a', 'u'), event('c', 'w')], project, clock.now()));
    await erase(store, project, 'user:u');
    await finish();
    const left = await queue.lease('x', 10, 1e9);
    t.same(
      left.flatMap(({ batch }) => observe(batch).map(({ id }) => id)),
      ['b-0', 'c-0'],
    );
  });

  t.test('items of a trace with a long id are erased from the queues', async (t) => {
    const { store, clock, finish } = await open(t);
    const project = await projectOf(store);
    const queue = await store.openQueue({ name: 'q', branches: ['x'], maxBytes: 1e9 });
    // A store keeps the hash of such an id.
    const events = [event('a'.repeat(65), 'u'), event('b', 'v')];
    await queue.append(batchOf(events, project, clock.now()));
    await erase(store, project, 'user:u');
    await finish();
    const [left] = await queue.lease('x', 10, 1e9);
    t.same(left && observe(left.batch).map(({ id }) => id), ['b-0']);
  });

  t.test('a delivery under way does not store erased items again', async (t) => {
    const { store, clock, finish } = await open(t);
    const project = await projectOf(store);
    const queue = await store.openQueue({ name: 'q', branches: ['x'], maxBytes: 1e9 });
    await queue.append(batchOf([event('a', 'u'), event('b', 'v')], project, clock.now()));
    await queue.append(batchOf([event('a', 'u', 1)], project, clock.now()));
    const leased = await queue.lease('x', 10, 1e9);
    await erase(store, project, 'id:a');
    await finish();
    for (const { batch } of leased) await store.traces.write(observed(batch));
    await queue.ack('x', leased);
    t.same(await idsOf(store, project), ['b']);
    const batches = await store.traces.getBatches(
      project,
      leased.map(({ batch }) => batch.id),
    );
    t.notMatch(batches.map(({ body }) => body.toString()).join(), 'input of a');
  });

  t.test('a batch stays while a dead letter holds it', async (t) => {
    const { store, clock, finish } = await open(t);
    const project = await projectOf(store);
    const queue = await store.openQueue({ name: 'q', branches: ['x'], maxBytes: 1e9 });
    const source = batchOf([event('a', 'u'), event('b', 'v')], project, clock.now());
    await queue.append(source);
    const [dead] = await queue.lease('x', 1, 1e9);
    if (dead !== undefined) await queue.deadLetter('x', dead, { code: 'bad', message: 'm' });
    // A filter dropped the other item on its way to the store.
    const [stored] = observe(source);
    await store.traces.write({ ...observed(source), observations: stored ? [stored] : [] });
    clock.set(clock.now() + 1000);
    await erase(store, project, 'user:u');
    await finish();
    t.same(await idsOf(store, project), []);
    t.match(queue.stats(), { deadLetters: 1, deadLetterItems: 1 });
    t.equal(await queue.replay('all'), 1);
    const [replayed] = await queue.lease('x', 1, 1e9);
    t.match(replayed?.batch.body.toString(), 'input of b-0');
  });

  t.test('a batch stays while an update in it waits for its run', async (t) => {
    const { store, clock, finish } = await open(t);
    const project = await projectOf(store);
    const tenant = aTenant({ projectId: project });
    const source = batchOf([event('a', 'u'), event('b', 'v')], project, clock.now());
    const update = anObservation({ id: 'run', traceId: null, index: 1, payloadMask: 0b00010 });
    const observations = [...observe(source).slice(0, 1), update];
    await store.traces.write({ ...observed(source), observations });
    clock.set(clock.now() + 1000);
    await erase(store, project, 'user:u');
    await finish();
    const start = anObservation({ id: 'run', traceId: 'b', operation: 'start', ended: false });
    const later = nativeBatch(1, { tenant, receivedAt: clock.now() });
    await store.traces.write({ kind: 'observations', source: later, observations: [start] });
    const found = await store.traces.getObservation(project, 'run', 'b');
    t.match(found, { ended: true, payload: { outputs: { batchId: source.id } } });
    const [batch] = await store.traces.getBatches(project, [source.id]);
    t.match(batch?.body.toString(), 'input of b-0');
  });

  t.test('data that arrives later is stored again', async (t) => {
    const { store, clock, finish } = await open(t);
    const project = await projectOf(store);
    await store.traces.write(observed(batchOf([event('a', 'u')], project, clock.now())));
    await erase(store, project, 'id:a');
    await finish();
    t.same(await idsOf(store, project), []);
    clock.set(clock.now() + 1000);
    await store.traces.write(observed(batchOf([event('a', 'u', 1)], project, clock.now())));
    await finish();
    t.same(await idsOf(store, project), ['a']);
    const { items } = await store.traces.listObservations(project, 'a', { limit: 10 });
    t.same(
      items.map(({ id }) => id),
      ['a-1'],
    );
  });

  t.test('blocked users and traces are not stored again until the time', async (t) => {
    const { store, clock, finish, reopen } = await open(t);
    const project = await projectOf(store);
    const until = clock.now() + 60_000;
    t.equal(store.erasures.blocks.areSome, false);
    for (const query of ['user:u', 'id:c']) {
      const request = { query: aQuery(query), isDryRun: false, blockUntil: until };
      await store.erasures.request(project, request, BY);
    }
    const child = { ...event('a', 'u', 1), metadata: {} };
    const source = batchOf(
      [child, event('b', 'v'), event('a', 'u'), event('c', 'w')],
      project,
      clock.now(),
    );
    const before = received(source);
    await store.erasures.blocks.apply(before, clock);
    t.equal(before.items, 1, 'the request loses them before it is durable');
    t.same([...(takeDropped(before) ?? [])], [['erasure_block', 3]]);
    const after = await reopen('crash');
    await finish();
    t.equal(after.erasures.blocks.areSome, true);
    await after.traces.write(observed(source));
    t.same(await idsOf(after, project), ['b']);
    const [batch] = await after.traces.getBatches(project, [source.id]);
    t.notMatch(batch?.body.toString(), /input of [ac]/);
    const other = await after.projects.create('other');
    await after.traces.write(observed(batchOf([event('a', 'u')], other.id, clock.now())));
    t.same(await idsOf(after, other.id), ['a'], 'a block is about one project');
    clock.set(until - 1);
    await after.traces.write(observed(batchOf([event('a', 'u')], project, clock.now())));
    t.same(await idsOf(after, project), ['b']);
    clock.set(until);
    await after.traces.write(observed(batchOf([event('a', 'u')], project, clock.now())));
    t.same(await idsOf(after, project), ['a', 'b']);
  });

  t.test('an erasure removes expired traces whose rows are not removed yet', async (t) => {
    const { store, clock, finish } = await open(t);
    const project = await projectOf(store);
    await store.projects.update(project, { retentionDays: 1 });
    const events = [event('trace-a', 'doomed'), event('trace-b', 'other')];
    await store.traces.write(observed(batchOf(events, project, clock.now())));
    clock.set(clock.now() + 2 * 86_400_000);
    t.same(await idsOf(store, project), [], 'no reader finds them');
    const { id } = await erase(store, project, 'user:doomed');
    await finish();
    t.match(await store.erasures.get(project, id), { state: 'done', traces: 1, observations: 1 });
  });

  t.test('another project keeps a trace with the same id', async (t) => {
    const { store, clock, finish } = await open(t);
    const project = await projectOf(store);
    const other = await store.projects.create('other');
    for (const id of [project, other.id]) {
      await store.traces.write(observed(batchOf([event('a', 'u')], id, clock.now())));
    }
    await erase(store, project, 'id:a');
    await finish();
    t.same(await idsOf(store, project), []);
    t.same(await idsOf(store, other.id), ['a']);
    t.same((await store.erasures.list(other.id, { limit: 10 })).items, []);
  });

  t.test('an erasure of many large traces goes on after a crash', async (t) => {
    const { store, clock, reopen, finish } = await open(t);
    const project = await projectOf(store);
    const traces = Array.from({ length: 30 }, (_, i) => `trace-${i}`);
    const events = traces.flatMap((trace, i) =>
      Array.from({ length: i === 7 ? 450 : 3 }, (_, n) => event(trace, i % 3 === 1 ? 'u' : 'v', n)),
    );
    for (let at = 0; at < events.length; at += 100) {
      const source = batchOf(events.slice(at, at + 100), project, clock.now());
      await store.traces.write(observed(source));
    }
    const { id } = await erase(store, project, 'user:u');
    const after = await reopen('crash');
    await finish();
    t.equal((await idsOf(after, project)).length, 20);
    const done = await after.erasures.get(project, id);
    t.match(done, { state: 'done', traces: 10, observations: 9 * 3 + 450 });
  });

  t.test('erasures are listed, newest first, in pages', async (t) => {
    const { store } = await open(t);
    const project = await projectOf(store);
    const ids: string[] = [];
    for (const q of ['id:a', 'id:b', 'id:c']) ids.unshift((await erase(store, project, q)).id);
    const first = await store.erasures.list(project, { limit: 2 });
    const cursor = first.nextCursor ?? '';
    const second = await store.erasures.list(project, { limit: 2, cursor });
    t.same(
      [...first.items, ...second.items].map(({ id }) => id),
      ids,
    );
    t.equal(second.nextCursor, null);
    t.equal(await store.erasures.get(project, 'era_none'), undefined);
    t.equal(await store.erasures.get(project, 'era_\u0000'), undefined);
    await t.rejects(store.erasures.list(project, { limit: 2, cursor: 'x' }), {
      code: 'invalid_cursor',
    });
    await t.rejects(erase(store, 'proj_none', 'id:a'), { code: 'unknown_project' });
  });
}
