import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import t from 'tap';
import { config } from '../../../extensions/file_storage/config.ts';
import { createExtension } from '../../../extensions/file_storage/extension.ts';
import { findOffer, offer } from '../../../src/component/capability.ts';
import { createHealth, HEALTH_REGISTRY } from '../../../src/component/health.ts';
import type { QueueEntry } from '../../../src/queue/queue.ts';
import { QUEUE_STORAGE } from '../../../src/queue/queue.ts';
import { USAGE_COUNTERS } from '../../../src/tenancy/contract.ts';
import { aTenant, nativeBatch } from '../../helper/batches.ts';
import { fakeClock } from '../../helper/clock.ts';
import { fakeHost, testSettings } from '../../helper/settings.ts';

const NEVER = new AbortController().signal;
const CANARY = 'canary-77a0c1';
const UNLIMITED = { eventsPerMonth: null, bytesPerHour: null };

async function started(t: Test, directory = t.testdir({})) {
  const clock = fakeClock();
  const services = [offer(HEALTH_REGISTRY, createHealth(clock))];
  const settings = testSettings('extension', 'file_storage', {
    clock,
    host: fakeHost({ services }),
  });
  const parsed = config.parse({ directory, min_free_bytes: 0, reserve_bytes: 0 });
  const extension = createExtension(settings, parsed);
  const storage = findOffer(extension.offers, QUEUE_STORAGE);
  const counters = findOffer(extension.offers, USAGE_COUNTERS);
  if (storage === undefined || counters === undefined)
    throw new Error('the extension lacks an offer');
  await extension.start();
  t.teardown(() => extension.shutdown(NEVER));
  const queue = await storage.openQueue({ name: 'q', branches: ['a'], maxBytes: 1e9 });
  return { directory, clock, extension, queue, counters };
}

t.test('counts accepted events, also after a restart', async (t) => {
  const { directory, extension, queue, counters } = await started(t);
  const batch = nativeBatch(3, { usage: { events: 3, bytes: 30 } });
  const reservation = { batchId: batch.id, tenant: batch.tenant, usage: batch.usage };
  const limits = { ...UNLIMITED, eventsPerMonth: 3 };
  const verdict = await counters.reserve({ ...reservation, at: batch.receivedAt }, limits);
  t.match(verdict, { admitted: true });
  await queue.append(batch);
  counters.settle({ ...reservation, at: batch.receivedAt }, true);
  await queue.ack('a', await queue.lease('a', 1, 1e9));
  await extension.shutdown(NEVER);
  const again = await started(t, directory);
  t.match(await again.counters.read('org_test'), { month: { events: 3 }, hour: { bytes: 30 } });
  const refused = await again.counters.peek(aTenant(), limits, again.clock.now());
  t.match(refused, { admitted: false, code: 'monthly_limit' });
});

t.test('removes a deleted project from the queues, and refuses its batches', async (t) => {
  const { directory, clock, queue, extension } = await started(t);
  const tenant = aTenant({ projectId: 'proj_doomed' });
  const inputs = { text: CANARY.repeat(3000) };
  const doomed = () => nativeBatch([{ id: 'o', trace_id: 't', inputs }], { tenant });
  for (let i = 0; i < 3; i++) await queue.append(doomed());
  const kept = nativeBatch(1);
  await queue.append(kept);
  const [dead] = await queue.lease('a', 1, 1e9);
  await queue.deadLetter('a', dead as QueueEntry, { code: 'bad', message: 'bad' });
  await queue.removeProject('proj_doomed');
  await t.rejects(queue.append(doomed()), { code: 'unauthorized' });
  while (queue.stats().branches[0]?.entries !== 1) {
    clock.advance(50);
    await queue.deadLetters();
  }
  t.match(queue.stats(), { bytes: kept.body.byteLength, deadLetters: 0 });
  const [entry] = await queue.lease('a', 5, 1e9);
  t.equal(entry?.batch.id, kept.id);
  await extension.shutdown(NEVER);
  for (const name of readdirSync(directory)) {
    t.notOk(readFileSync(join(directory, name)).includes(CANARY), name);
  }
});
