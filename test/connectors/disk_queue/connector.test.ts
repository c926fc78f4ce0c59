import { statSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import t from 'tap';
import { config } from '../../../connectors/disk_queue/config.ts';
import { createConnector as diskQueue } from '../../../connectors/disk_queue/connector.ts';
import { config as fileStorage } from '../../../extensions/file_storage/config.ts';
import { offer } from '../../../src/component/capability.ts';
import { createHealth, HEALTH_REGISTRY } from '../../../src/component/health.ts';
import { createQueues, QUEUE_REGISTRY } from '../../../src/queue/registry.ts';
import { nativeBatch } from '../../helper/batches.ts';
import { fakeClock } from '../../helper/clock.ts';
import { fakeHost, testSettings } from '../../helper/settings.ts';
import { createSink, sinkPipeline } from '../../helper/sink.ts';
import { until } from '../../helper/until.ts';

const NEVER = new AbortController().signal;

async function running(t: Test, more: { directory?: string; [field: string]: unknown } = {}) {
  const clock = fakeClock();
  const queues = createQueues();
  const services = [offer(HEALTH_REGISTRY, createHealth(clock)), offer(QUEUE_REGISTRY, queues)];
  const settings = testSettings('connector', 'disk_queue', { clock, host: fakeHost({ services }) });
  const sink = createSink();
  const parsed = config.parse({ ...more, directory: more.directory ?? t.testdir({}) });
  const connector = diskQueue(settings, parsed, [sinkPipeline(sink, { id: 'traces/store' })]);
  t.teardown(() => connector.shutdown(NEVER));
  return { connector, sink, settings, queues, clock };
}

t.test('takes exactly one place for the queue', async (t) => {
  const message = /exactly one of `store`, `storage` and `directory`/;
  for (const wrong of [
    {},
    { store: 'sqlite', storage: 'file_storage' },
    { store: 'a', directory: 'b' },
  ]) {
    t.match(config.safeParse(wrong).error?.issues[0]?.message, message);
  }
  for (const right of [
    { store: 'sqlite' },
    { storage: 'file_storage' },
    { directory: './queue' },
  ]) {
    t.ok(config.safeParse(right).success);
  }
});

t.test('delivers from a directory of its own, and reports the backlog', async (t) => {
  const { connector, sink, settings, queues } = await running(t, { num_consumers: 1 });
  await t.rejects(connector.consume(nativeBatch(1)), { name: 'RetryableError' });
  const gate = Promise.withResolvers<void>();
  sink.behave(() => gate.promise);
  await connector.start();
  const batch = nativeBatch(3);
  await connector.consume(batch);
  const labels = { connector: 'disk_queue', branch: 'traces/store/sink' };
  t.equal(settings.metrics.value('tracectl_queue_items', labels), 3);
  t.equal(
    settings.metrics.value('tracectl_queue_bytes', { connector: 'disk_queue' }),
    batch.body.length,
  );
  t.ok(queues.all.has('disk_queue'));
  gate.resolve();
  await sink.holds(1);
  t.same(sink.ids(), [batch.id]);
});

t.test('a directory of its own has the reserve of a file_storage', async (t) => {
  const directory = t.testdir({});
  const { connector } = await running(t, { directory });
  await connector.start();
  const size = () => statSync(join(directory, 'queue.reserve'), { throwIfNoEntry: false })?.size;
  await until(() => size() !== undefined);
  t.equal(size(), fileStorage.parse({}).reserve_bytes);
});

t.test('refuses a batch above max_bytes with queue_full', async (t) => {
  const { connector, sink } = await running(t, { max_bytes: nativeBatch(1).body.length });
  sink.behave('retryable');
  await connector.start();
  await connector.consume(nativeBatch(1));
  await t.rejects(connector.consume(nativeBatch(1)), {
    name: 'RetryableError',
    code: 'queue_full',
  });
});

t.test('delivers the backlog after a restart', async (t) => {
  const directory = t.testdir({});
  const first = await running(t, { directory });
  first.sink.behave('retryable');
  await first.connector.start();
  const batches = [nativeBatch(1), nativeBatch(2)];
  for (const batch of batches) await first.connector.consume(batch);
  await first.connector.shutdown(NEVER);
  const second = await running(t, { directory });
  await second.connector.start();
  while (second.sink.batches.length < 2) {
    second.clock.advance(1000);
    await new Promise(setImmediate);
  }
  t.same(second.sink.ids().sort(), batches.map(({ id }) => id).sort());
});
