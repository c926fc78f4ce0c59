import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { eventually } from './client.ts';
import { at, noticeDeathSoon, sql, startCluster } from './cluster.ts';
import { monthEvents, oracle } from './cluster-oracle.ts';
import type { Daemon } from './daemon.ts';
import { type Entry, startLoad } from './journal.ts';

/**
 * Runs config/gateway.yaml and config/worker.yaml, and kills gateways, workers, Redis and Postgres in turn under
 * load. After each kill the load pauses until everything is delivered, and the oracle is checked.
 *   node test/e2e/kills-in-turn.ts      # two to three minutes
 */

t.setTimeout(600_000);
// All stages use one cluster, and leave it intact.
t.jobs = 1;

/** Requests to acknowledge before the kill, and again after the restart. */
const ENOUGH = 100;
/** Batches that a worker delivers to an exporter at the same time, in config/worker.yaml. */
const CONCURRENCY = 8;

t.test('loses nothing when gateways, workers, Redis and Postgres are killed in turn', async (t) => {
  const cluster = await startCluster(t, { worker: noticeDeathSoon });
  const { gateways, workers, redis, postgres, database } = cluster;
  /** The journal of all stages, so that a later kill cannot lose earlier data unnoticed. */
  const journal: Entry[] = [];
  const acknowledged = () => journal.filter(({ state }) => state === 'acknowledged').length;

  const more = (what: string) => {
    const before = acknowledged();
    return eventually(
      async () => acknowledged(),
      (count) => count >= before + ENOUGH,
      `${ENOUGH} answers ${what}`,
      60_000,
    );
  };

  const stage = (name: string, kill: () => Promise<unknown>, restart: () => Promise<unknown>) =>
    t.test(name, async (t) => {
      let restMs = 0;
      const options = { clients: 6, open: [503], restMs: () => restMs };
      const load = startLoad(cluster.target, journal, options);
      try {
        await more('before the kill');
        // The load is unthrottled up to the kill, so that the victim has work in progress.
        await kill();
        restMs = 50;
        await sleep(300);
        await restart();
        await more('after it, without a restart of anything else');
      } finally {
        await load.stop();
      }
      t.comment(`${acknowledged()} of ${journal.length} requests acknowledged`);
      await cluster.drained();
      const problems = await oracle(cluster, journal);
      t.same(problems.slice(0, 20), [], 'the books agree');
    });

  /** Waits for the reservations of a dead gateway, which are released after a minute. */
  const agree = (name: string, timeoutMs: number) =>
    t.test(name, () =>
      eventually(
        () => monthEvents(cluster),
        (counted) => new Set(counted).size === 1,
        'the same number in Redis, on each gateway, and in the ledger',
        timeoutMs,
      ),
    );

  const kill =
    (...daemons: Daemon[]) =>
    () =>
      Promise.all(daemons.map((daemon) => daemon.end('SIGKILL')));
  const start =
    (...daemons: Daemon[]) =>
    () =>
      Promise.all(daemons.map((daemon) => daemon.start()));
  const [first, second, third] = [at(gateways, 0), at(gateways, 1), at(gateways, 2)];
  const [one, other] = [at(workers, 0), at(workers, 1)];

  /** Delays the workers, which otherwise keep pace with the load and are idle at the kill. */
  const backlog = async () => {
    for (const worker of workers) process.kill(worker.pid(), 'SIGSTOP');
    await more('while workers are held up');
    for (const worker of workers) process.kill(worker.pid(), 'SIGCONT');
    await eventually(
      () => sql(database, 'SELECT FROM queue_entries WHERE holder IS NOT NULL'),
      (leased) => leased.length >= 2 * CONCURRENCY,
      'workers with their hands full',
    );
  };

  await stage('a gateway is killed', kill(first), start(first));
  await stage(
    'a gateway and a worker are killed at once',
    () => backlog().then(kill(second, one)),
    start(second, one),
  );
  await stage(
    'Postgres is killed, and a gateway before it is back',
    () => postgres.kill().then(kill(third)),
    () => postgres.start().then(start(third)),
  );
  await stage('a worker is killed', () => backlog().then(kill(other)), start(other));
  await stage('Postgres is killed', postgres.kill, postgres.start);
  await agree('what dead gateways had reserved is given back', 120_000);
  await stage('Redis is killed', redis.kill, redis.start);
  await agree('the counters in Redis are summed up from the ledger', 10_000);
});
