import t from 'tap';
import { ACCEPTED, startOtlpServer } from '../../helper/otlp-server.ts';
import { eventually, json, send } from '../client.ts';
import { at, startCluster } from '../cluster.ts';
import type { Daemon } from '../daemon.ts';
import { treeAt } from '../shipped.ts';
import { victimOf } from './victim.ts';

/** Workers whose deliveries never end, and a frozen Redis, beside a client of the gateway. */

t.setTimeout(300_000);
t.jobs = 1;

type HealthPage = {
  readonly components: readonly {
    readonly id: string;
    readonly details: Readonly<Record<string, unknown>>;
  }[];
};

/** `oldest_age_seconds` of the component, in the process of a daemon that has it. */
async function oldestAge(daemon: Daemon, component = 'bullmq'): Promise<unknown> {
  const page = json(await send(daemon.health, { path: '/readyz?verbose' })) as HealthPage;
  return page.components.find(({ id }) => id === component)?.details['oldest_age_seconds'];
}

t.test('a worker whose deliveries never end is restarted, and its batches arrive', async (t) => {
  const destination = await startOtlpServer(t);
  destination.always('hang');
  const cluster = await startCluster(t, {
    ...{ gateways: 1, workers: 1 },
    worker(config) {
      Object.assign(treeAt(config, 'receivers', 'bullmq'), {
        ...{ step_timeout: '1s', delivery_timeout: '2s', progress_timeout: '3s' },
        max_interval: '1s',
      });
      config.exporters = {
        otlphttp: {
          endpoint: destination.url,
          timeout: '1h',
          retry_on_failure: { enabled: false },
          sending_queue: { enabled: false },
        },
      };
      Object.assign(treeAt(config, 'service', 'pipelines', 'traces/store'), {
        ...{ processors: [], exporters: ['otlphttp'] },
      });
      Object.assign(treeAt(config, 'service'), { workers: 2 });
    },
  });
  const [gateway, worker] = [at(cluster.gateways, 0), at(cluster.workers, 0)];
  const victim = victimOf(gateway, cluster.key, 100);
  t.teardown(victim.close);
  const report = await victim.during(() =>
    eventually(
      async () => worker.stderr(),
      (log) => /Worker ended; restarting it .*code=75/.test(log),
      'a worker that ended with status 75',
      60_000,
    ),
  );
  t.same(Object.keys(report.statuses), ['202'], 'the gateway accepts everything');
  t.match(worker.stderr(), /makes no progress.*delivery to traces\/store\/otlphttp/);
  t.ok(worker.running(), 'the daemon runs on');
  await eventually(
    () => Promise.all([1, 2].map((index) => oldestAge(worker, `worker-${index}/bullmq`))),
    (ages) => ages.some((age) => typeof age === 'number'),
    'the age of the oldest batch in the health of a worker',
    30_000,
  );
  destination.always(ACCEPTED);
  await cluster.drained();
  t.equal(await oldestAge(gateway), null);
});

t.test('every batch that was accepted around a freeze of Redis arrives', async (t) => {
  const cluster = await startCluster(t, { gateways: 1, workers: 2 });
  const { redis } = cluster;
  const gateway = at(cluster.gateways, 0);
  const victim = victimOf(gateway, cluster.key, 100);
  t.teardown(victim.close);
  t.teardown(() => redis.thaw());
  await victim.watch(1000);
  redis.freeze();
  const frozen = await victim.watch(8000);
  redis.thaw();
  const statuses = Object.keys(frozen.statuses).filter(
    (status) => !['202', '503'].includes(status),
  );
  t.same(statuses, [], 'every request is answered');
  await eventually(
    () => victim.watch(500),
    ({ statuses }) => Object.keys(statuses).join() === '202',
    'a gateway that accepts again',
  );
  await cluster.drained();
  t.ok([...cluster.workers, gateway].every((daemon) => daemon.running()));
});
