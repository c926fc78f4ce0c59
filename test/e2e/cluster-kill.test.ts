import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { eventually } from './client.ts';
import { at, clearOfTheHour, sql, startCluster } from './cluster.ts';
import { oracle } from './cluster-oracle.ts';
import { type Daemon, total } from './daemon.ts';
import { type Entry, startLoad } from './journal.ts';
import { treeAt } from './shipped.ts';

/**
 * config/gateway.yaml and config/worker.yaml as processes, killed in turn under load, and Redis and Postgres
 * with them. After each kill the load pauses, what is accepted is delivered, and the books are compared.
 */

t.setTimeout(600_000);
// One cluster; each stage leaves it as it found it.
t.jobs = 1;

/** Acknowledged before the kill, and again when what was killed is back. */
const ENOUGH = 50;

t.test('gateways, workers, Redis and Postgres are killed in turn under load', async (t) => {
  await clearOfTheHour();
  const cluster = await startCluster(t, {
    worker(config) {
      // A dead worker's jobs go to another one after this time; a minute by default.
      treeAt(config, 'receivers', 'bullmq').lock_duration = '5s';
    },
  });
  const { gateways, workers, redis, postgres, database } = cluster;
  /** Of all stages: nothing that came before is lost by what is killed after. */
  const journal: Entry[] = [];
  const usedEvents = async () => {
    const [row] = await sql(database, 'SELECT sum(events) AS events FROM all_usage');
    return Number(row?.events);
  };
  const acknowledged = () => journal.filter(({ state }) => state === 'acknowledged').length;

  const stage = (name: string, killAndRestart: () => Promise<void>) =>
    t.test(name, async (t) => {
      const begun = performance.now();
      const ms = () => `${Math.round(performance.now() - begun)} ms`;
      const more = (what: string) => {
        const before = acknowledged();
        return eventually(
          async () => acknowledged(),
          (count) => count >= before + ENOUGH,
          `${ENOUGH} answers ${what}`,
          60_000,
        );
      };
      // While Postgres dies in the middle of a commit, 503 leaves open whether it was carried out.
      const options = { clients: 6, open: [503], restMs: 30 };
      const load = startLoad(cluster.target, journal, options);
      try {
        await more('before the kill');
        await killAndRestart();
        await more('after it, without a restart of anything else');
      } finally {
        await load.stop();
      }
      t.comment(`${acknowledged()} of ${journal.length} requests acknowledged, ${ms()}`);
      await cluster.drained();
      t.comment(`drained, ${ms()}`);
      const problems = await oracle(cluster, journal);
      t.same(problems.slice(0, 20), [], 'the books agree');
      t.comment(`compared, ${ms()}`);
      const counted = await Promise.all(gateways.map(monthEvents));
      t.ok(Math.min(...counted) >= (await usedEvents()), 'no limit is forgotten');
    });

  /** What a dead gateway had reserved is given back after a minute. */
  const agree = (name: string, timeoutMs: number) =>
    t.test(name, () =>
      eventually(
        async () => [...(await Promise.all(gateways.map(monthEvents))), await usedEvents()],
        (counted) => new Set(counted).size === 1,
        'the same number in Redis, on each gateway, and in the ledger',
        timeoutMs,
      ),
    );

  await stage('a gateway is killed', () => restart(at(gateways, 0)));
  await stage('a gateway and a worker are killed at once', async () => {
    await Promise.all([restart(at(gateways, 1)), restart(at(workers, 1))]);
  });
  await stage('Postgres is killed, and a gateway before it is back', async () => {
    await postgres.kill();
    await at(gateways, 2).end('SIGKILL');
    await sleep(300);
    await postgres.start();
    await at(gateways, 2).start();
  });
  await stage('a worker is killed', () => restart(at(workers, 0)));
  await stage('Postgres is killed', async () => {
    await postgres.kill();
    await sleep(300);
    await postgres.start();
  });
  await agree('what dead gateways had reserved is given back', 120_000);
  await stage('Redis is killed', async () => {
    await redis.kill();
    await sleep(300);
    await redis.start();
  });
  await agree('the counters in Redis are summed up from the ledger', 10_000);
});

async function monthEvents(gateway: Daemon): Promise<number> {
  return total(await gateway.metrics(), 'tracectl_quota_month_events');
}

async function restart(daemon: Daemon): Promise<void> {
  await daemon.end('SIGKILL');
  await daemon.start();
}
