import type { Test } from 'tap';
import type { SealedBatch } from '../../src/model/batch.ts';
import { observe } from '../../src/model/formats.ts';
import { ulid } from '../../src/model/ulid.ts';
import type { DurableQueue } from '../../src/queue/queue.ts';
import { HOUR } from '../../src/store/rollups/fold.ts';
import type { Store } from '../../src/store/store.ts';
import { aTenant, nativeEvent, rawBatch } from '../helper/batches.ts';
import type { StorePlace } from './place.ts';
import { rollups } from './rollup-oracle.ts';

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
const QUEUE = { name: 'q', branches: ['a'], maxBytes: 1e9 };
const DELIVER = { max: 8, bytes: 1e9 };
/** More observations than a write to Postgres has in one transaction. */
const LARGE = 501;

/** A project that keeps traces for a day, behind a queue of its store. */
async function delivering(t: Test, place: (t: Test) => Promise<StorePlace>) {
  const at = await place(t);
  const opened = await at.open();
  t.teardown(() => opened.close());
  const queue: DurableQueue = await opened.store.openQueue(QUEUE);
  const [project] = await opened.store.projects.list();
  const projectId = project?.id ?? '';
  await opened.store.projects.update(projectId, { retentionDays: 1 });
  return {
    /** Receives a batch now. */
    async append(format: 'native' | 'runs', body: object, items: number): Promise<void> {
      const receivedAt = at.clock.now();
      const more = { id: ulid(receivedAt), tenant: aTenant({ projectId }), receivedAt };
      await queue.append(rawBatch(format, Buffer.from(JSON.stringify(body)), items, more));
    },
    /** Writes all batches that wait. If the outcome is lost, the queue delivers them again. */
    async deliver(outcome: 'known' | 'lost'): Promise<number> {
      const entries = await queue.lease('a', DELIVER.max, DELIVER.bytes);
      await Promise.all(entries.map(({ batch }) => write(opened.store, batch)));
      if (outcome === 'known') await queue.ack('a', entries);
      else for (const entry of entries) await queue.nack('a', entry, 0, 'lost');
      return entries.length;
    },
    /** Removes everything that has expired some days later. */
    async expire(days: number): Promise<void> {
      at.clock.set(at.clock.now() + days * DAY_MS);
      await opened.finish();
    },
    /** How many traces the rollups have of each name. */
    async counts(): Promise<Record<string, number>> {
      const now = Math.ceil(at.clock.now() / HOUR_MS);
      const hours = { from: now - 24 * 100, to: now + 1 };
      const sums = await rollups(opened.store, projectId, hours, HOUR);
      const counts: Record<string, number> = {};
      for (const [key, { numbers }] of Object.entries(sums)) {
        const [field, name] = JSON.parse(key);
        if (field === 'name') counts[name] = (counts[name] ?? 0) + (numbers[0] ?? 0);
      }
      return counts;
    },
    async traces(): Promise<Record<string, number>> {
      const { items } = await opened.store.traces.listTraces(projectId, { limit: 100 });
      return Object.fromEntries(items.map(({ id, observationCount }) => [id, observationCount]));
    },
  };
}

async function write(store: Store, source: SealedBatch): Promise<void> {
  await store.traces.write({ kind: 'observations', source, observations: observe(source) });
}

function events(...traces: string[]) {
  return { events: traces.map((name) => nativeEvent({ id: name, trace_id: name, name })) };
}

const run = (id: string, more: object = {}) => ({ id, name: id, run_type: 'chain', ...more });

/**
 * A batch that was written is delivered again after its traces have expired, as after a kill before the acknowledgement or a commit whose
 * answer was lost.
 */
export function redelivery(t: Test, place: (t: Test) => Promise<StorePlace>): void {
  t.test('a batch that is delivered again behind its retention counts once', async (t) => {
    const at = await delivering(t, place);
    await at.append('native', events('x', 'y'), 2);
    for (let delivery = 1; delivery <= 3; delivery++) {
      t.equal(await at.deliver(delivery < 3 ? 'lost' : 'known'), 1, `delivery ${delivery}`);
      await at.expire(2);
    }
    t.same(await at.counts(), { x: 1, y: 1 });
  });

  t.test('a large batch counts once too', async (t) => {
    const at = await delivering(t, place);
    const names = Array.from({ length: LARGE }, (_, i) => (i < LARGE - 1 ? 'x' : 'y'));
    const list = names.map((name, i) => nativeEvent({ id: `${i}`, trace_id: name, name }));
    await at.append('native', { events: list }, LARGE);
    await at.deliver('lost');
    await at.expire(2);
    t.equal(await at.deliver('known'), 1);
    t.same(await at.counts(), { x: 1, y: 1 });
  });

  t.test('runs that name no trace count once too, and none waits again', async (t) => {
    const at = await delivering(t, place);
    const post = [run('root'), run('child', { parent_run_id: 'root' })];
    const patch = [{ id: 'root', outputs: { text: 'late' } }];
    await at.append('runs', { post, patch }, 3);
    await at.append('runs', { post: [run('orphan', { parent_run_id: 'absent' })] }, 1);
    await at.deliver('lost');
    await at.expire(2);
    t.equal(await at.deliver('known'), 2);
    t.same(await at.counts(), { root: 1, orphan: 1 });
    await at.append('runs', { post: [run('absent')] }, 1);
    await at.deliver('known');
    t.same(await at.traces(), { absent: 1 }, 'no run waited for it');
  });

  t.test('a trace of the batch that is kept gets its events again', async (t) => {
    const at = await delivering(t, place);
    await at.append('native', events('kept', 'gone'), 2);
    await at.deliver('lost');
    await at.expire(0.5);
    const later = [nativeEvent({ id: 'later', trace_id: 'kept', name: 'kept' })];
    await at.append('native', { events: later }, 1);
    await at.deliver('lost');
    await at.expire(0.75);
    t.equal(await at.deliver('known'), 2);
    t.same(await at.counts(), { kept: 1, gone: 1 });
    t.same(await at.traces(), { kept: 2 });
  });

  t.test('a newer batch begins a trace that it shares with an expired one', async (t) => {
    const at = await delivering(t, place);
    await at.append('native', events('x', 'y'), 2);
    await at.deliver('lost');
    await at.expire(2);
    await at.append('native', events('x'), 1);
    t.equal(await at.deliver('known'), 2);
    t.same(await at.counts(), { x: 2, y: 1 });
    t.same(await at.traces(), { x: 1 });
  });

  t.test('a batch whose first delivery is late counts', async (t) => {
    const at = await delivering(t, place);
    await at.append('native', events('x', 'y'), 2);
    await at.expire(2);
    t.equal(await at.deliver('known'), 1);
    await at.expire(0);
    t.same(await at.counts(), { x: 1, y: 1 });
    t.same(await at.traces(), {});
  });
}
