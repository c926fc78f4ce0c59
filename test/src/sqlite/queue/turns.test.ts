import type { Test } from 'tap';
import t from 'tap';
import type { DurableQueue } from '../../../../src/queue/queue.ts';
import { aTenant, nativeBatch } from '../../../helper/batches.ts';
import { directoryQueues, joinedQueues, storeQueues } from '../../../helper/places.ts';

const OPTIONS = { name: 'q', branches: ['a'], maxBytes: 1e9 };
/** The entries of one project that a line has in memory. */
const WINDOW = 1024;
const tenants = { loud: aTenant({ projectId: 'loud' }), quiet: aTenant({ projectId: 'quiet' }) };
type Project = keyof typeof tenants;

async function append(queue: DurableQueue, project: Project, count: number, bytes = 2) {
  const more = { tenant: tenants[project], body: Buffer.alloc(bytes) };
  await Promise.all(Array.from({ length: count }, () => queue.append(nativeBatch(1, more))));
}

/** The projects of the next entries, in the order of their leases. */
async function next(queue: DurableQueue, count: number): Promise<string[]> {
  const projects: string[] = [];
  for (let i = 0; i < count; i++) {
    const entries = await queue.lease('a', 1, 1e9);
    projects.push(...entries.map(({ batch }) => batch.tenant.projectId));
  }
  return projects;
}

async function opened(t: Test) {
  const place = await directoryQueues(t);
  const open = await place.open();
  t.teardown(() => open.close());
  return open.storage.openQueue(OPTIONS);
}

for (const places of [storeQueues, directoryQueues, joinedQueues]) {
  t.test(`projects take turns (${places.name})`, async (t) => {
    const place = await places(t);
    const open = await place.open();
    t.teardown(() => open.close());
    const queue = await open.storage.openQueue(OPTIONS);
    await append(queue, 'loud', 4);
    await append(queue, 'quiet', 2);
    const order = ['loud', 'quiet', 'loud', 'quiet', 'loud', 'loud'];
    t.same(await next(queue, 6), order);
  });
}

for (const backlog of [WINDOW, WINDOW + 1, 3 * WINDOW]) {
  t.test(`a project with ${backlog} waiting entries delays another by one entry`, async (t) => {
    const queue = await opened(t);
    await append(queue, 'loud', backlog);
    await append(queue, 'quiet', 1);
    t.same(await next(queue, 2), ['loud', 'quiet']);
    t.equal((await next(queue, backlog)).length, backlog - 1, 'every entry is leased once');
  });
}

t.test('a new entry of another project passes a backlog from before a restart', async (t) => {
  const place = await directoryQueues(t);
  const first = await place.open();
  await append(await first.storage.openQueue(OPTIONS), 'loud', 2 * WINDOW);
  await first.close();
  const second = await place.open();
  t.teardown(() => second.close());
  const queue = await second.storage.openQueue(OPTIONS);
  t.same(await next(queue, 1), ['loud']);
  await append(queue, 'quiet', 1);
  const then = await next(queue, 2 * WINDOW);
  t.equal(then.length, 2 * WINDOW, 'every entry is leased once');
  t.ok(then.indexOf('quiet') <= 1);
});

t.test(
  'leases an entry beside others only of a project without a lease, and a small one',
  async (t) => {
    const queue = await opened(t);
    const beside = async (maxBytes: number) => (await queue.leaseOfIdle?.('a', maxBytes)) ?? [];
    await append(queue, 'loud', 2);
    const leased = await queue.lease('a', 1, 1e9);
    t.same(await beside(1e9), [], 'the only project has a lease');
    await append(queue, 'quiet', 1, 100);
    t.same(await beside(99), [], 'one byte too large');
    const [entry] = await beside(100);
    t.equal(entry?.batch.tenant.projectId, 'quiet');
    await queue.ack('a', leased);
    t.equal((await beside(1e9))[0]?.batch.tenant.projectId, 'loud', 'its lease has ended');
  },
);
