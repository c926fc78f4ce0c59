import type { Test } from 'tap';
import t from 'tap';
import { config } from '../../../connectors/disk_queue/config.ts';
import { createConnector } from '../../../connectors/disk_queue/connector.ts';
import { offer } from '../../../src/component/capability.ts';
import { createHealth, HEALTH_REGISTRY } from '../../../src/component/health.ts';
import { RetryableError } from '../../../src/model/errors.ts';
import type { DurableQueue } from '../../../src/queue/queue.ts';
import { QUEUE_STORAGE } from '../../../src/queue/queue.ts';
import { createQueues, QUEUE_REGISTRY } from '../../../src/queue/registry.ts';
import { aTenant, nativeBatch } from '../../helper/batches.ts';
import { fakeClock } from '../../helper/clock.ts';
import { fakeHost, testSettings } from '../../helper/settings.ts';
import { createSink, sinkPipeline } from '../../helper/sink.ts';
import { until } from '../../helper/until.ts';

t.setTimeout(30_000);

const MAX_AGE = 2_500;
const REFUSED = { name: 'RetryableError', code: 'backlog_too_old', retryAfterMs: 1_000 };

/** A started queue whose exporter has one place; a delivery ends when the test says so. */
async function running(t: Test, more: Record<string, unknown> = {}, clock = fakeClock()) {
  const health = createHealth(clock);
  const services = [offer(HEALTH_REGISTRY, health), offer(QUEUE_REGISTRY, createQueues())];
  const settings = testSettings('connector', 'disk_queue', { clock, host: fakeHost({ services }) });
  const sink = createSink();
  const parsed = config.parse({
    ...{ max_backlog_age: '2500ms', num_consumers: 1, ...more },
    directory: more.directory ?? t.testdir({}),
  });
  const connector = createConnector(settings, parsed, [sinkPipeline(sink, { id: 'traces/store' })]);
  await connector.start();
  const send = async (projectId = 'loud') => {
    const batch = nativeBatch(1, { tenant: aTenant({ projectId }), receivedAt: clock.now() });
    await connector.consume(batch);
  };
  const gates: PromiseWithResolvers<void>[] = [];
  const exporter = { isAway: false, attempts: 0 };
  sink.behave(() => {
    exporter.attempts++;
    if (exporter.isAway) throw new RetryableError('test_away', 'later');
    const gate = Promise.withResolvers<void>();
    gates.push(gate);
    return gate.promise;
  });
  /** Nothing is leased any more, and the delivery in progress ends. */
  const stop = async () => {
    let hasEnded = false;
    const ended = connector.shutdown(new AbortController().signal).then(() => {
      hasEnded = true;
    });
    for (const gate of gates) gate.resolve();
    await until(() => {
      clock.advance(10);
      return hasEnded;
    });
    await ended;
  };
  t.teardown(stop);
  const inDelivery = (count: number) => until(() => gates.length === count);
  return { connector, exporter, stop, settings, clock, health, send, gates, inDelivery };
}

t.test('refuses a project whose oldest waiting batch is older than the limit', async (t) => {
  const { clock, send, inDelivery, settings, gates } = await running(t);
  await send();
  await inDelivery(1);
  clock.advance(10 * MAX_AGE);
  await send();
  clock.advance(MAX_AGE);
  await send();
  const labels = { connector: 'disk_queue' };
  t.equal(settings.metrics.value('tracectl_queue_backlog_age_seconds', labels), MAX_AGE / 1000);
  clock.advance(1);
  await t.rejects(send(), REFUSED, 'one millisecond past the limit');
  await t.rejects(send(), { message: /waited for 2\.5 s/ });
  gates[0]?.resolve();
  await inDelivery(2);
  await send();
  t.pass('the next batch is in delivery, and the one behind it is young');
});

t.test('does not refuse another project', async (t) => {
  const { clock, send, inDelivery } = await running(t);
  await send();
  await inDelivery(1);
  await send();
  clock.advance(MAX_AGE + 1);
  await t.rejects(send(), REFUSED);
  await send('quiet');
  await inDelivery(2);
  await send('quiet');
  clock.advance(MAX_AGE);
  await send('quiet');
  clock.advance(1);
  await t.rejects(send('quiet'), REFUSED, 'its own batch waits too');
});

t.test('takes a batch without items, of which only the answer is kept', async (t) => {
  const { connector, clock, send, inDelivery } = await running(t);
  await send();
  await inDelivery(1);
  await send();
  clock.advance(MAX_AGE + 1);
  await t.rejects(send(), REFUSED);
  await connector.consume(nativeBatch(0, { tenant: aTenant({ projectId: 'loud' }) }));
});

t.test('has no limit by default, and with 0', async (t) => {
  t.equal(config.parse({ directory: 'd' }).max_backlog_age, 0);
  const { clock, send, inDelivery } = await running(t, { max_backlog_age: 0 });
  await send();
  await inDelivery(1);
  await send();
  clock.advance(86_400_000);
  await send();
});

t.test('a batch that is retried does not count', async (t) => {
  const { clock, send, inDelivery, exporter } = await running(t, { initial_interval: '1h' });
  exporter.isAway = true;
  await send();
  await until(() => exporter.attempts === 1);
  exporter.isAway = false;
  clock.advance(MAX_AGE + 1);
  await send();
  t.pass('only the failed batch is old');
  // The branch rests after the failure; then the other batch is delivered, and the failed one has not come back.
  clock.advance(3_600_000);
  await inDelivery(1);
  await send();
});

t.test('batches that wait for the end of an outage do not count', async (t) => {
  const { clock, send, exporter, gates, inDelivery } = await running(t);
  exporter.isAway = true;
  await send();
  while (exporter.attempts < 5) {
    clock.advance(30_000);
    await new Promise(setImmediate);
    await send();
  }
  exporter.isAway = false;
  await until(() => {
    clock.advance(1000);
    return gates.length === 1;
  });
  await send();
  gates[0]?.resolve();
  await inDelivery(2);
  await send();
  clock.advance(MAX_AGE);
  await send();
  clock.advance(1);
  await t.rejects(send(), REFUSED, 'the wait counts from the end of the outage');
});

t.test('the wait from before a restart does not count', async (t) => {
  const directory = t.testdir({});
  const clock = fakeClock();
  const first = await running(t, { directory }, clock);
  for (let i = 0; i < 3; i++) await first.send();
  await first.inDelivery(1);
  await first.stop();
  clock.advance(3_600_000);
  const second = await running(t, { directory }, clock);
  await second.inDelivery(1);
  clock.advance(MAX_AGE);
  await second.send();
  clock.advance(1);
  await t.rejects(second.send(), REFUSED);
});

t.test('health says how far behind the deliveries are', async (t) => {
  const { clock, send, inDelivery, health } = await running(t);
  await send();
  await inDelivery(1);
  await send();
  clock.advance(2_000);
  const [reported] = health.report(true).components ?? [];
  t.match(reported, {
    ...{ ready: true, healthy: true },
    details: { backlog_age_seconds: 2, max_backlog_age_seconds: 2.5 },
  });
});

t.test('refuses to start on a queue that does not know the projects of its entries', async (t) => {
  const clock = fakeClock();
  const queue = {} as DurableQueue;
  const services = [
    offer(HEALTH_REGISTRY, createHealth(clock)),
    offer(QUEUE_REGISTRY, createQueues()),
  ];
  const storage = { openQueue: async () => queue };
  const host = fakeHost({ services, extensions: { postgres: [offer(QUEUE_STORAGE, storage)] } });
  const settings = testSettings('connector', 'disk_queue', { clock, host });
  const parsed = config.parse({ storage: 'postgres', max_backlog_age: '1s' });
  const connector = createConnector(settings, parsed, [sinkPipeline(createSink(), {})]);
  await t.rejects(connector.start(), /max_backlog_age needs a queue on disk/);
});
