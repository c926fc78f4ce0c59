import t from 'tap';
import { nativeBatch } from '../../helper/batches.ts';
import { processOn, until } from '../../helper/job-queue.ts';
import { type RedisServer, redisServer } from '../../helper/redis-server.ts';

/** A Redis that answers, and refuses what a worker needs to take a job. */

async function refused({ client }: RedisServer, code: string): Promise<number> {
  const stats = await client.info('errorstats');
  return Number(new RegExp(`errorstat_${code}:count=(\\d+)`).exec(stats)?.[1] ?? 0);
}

/** Some seconds of an idle machine would be needed for so many pauses of the worker. */
const MOST_REFUSALS = 20;
const ROUND_TRIPS = 2000;

const FAULTS = {
  OOM: {
    begin: (redis: RedisServer) => redis.config('maxmemory', '1'),
    end: (redis: RedisServer) => redis.config('maxmemory', '0'),
    message: 'Redis is full. The worker gets no jobs.',
  },
  NOREPLICAS: {
    begin: (redis: RedisServer) => redis.config('min-replicas-to-write', '1'),
    end: (redis: RedisServer) => redis.config('min-replicas-to-write', '0'),
    message: 'Redis refuses writes: too few replicas follow it. The worker gets no jobs.',
  },
  NOPERM: {
    begin: ({ client }: RedisServer) => client.call('ACL', 'SETUSER', 'default', '-evalsha'),
    end: ({ client }: RedisServer) => client.call('ACL', 'SETUSER', 'default', '+evalsha'),
    message: 'Redis denies a command to its user: see its ACL. The worker gets no jobs.',
  },
} as const;

for (const [code, { begin, end, message }] of Object.entries(FAULTS)) {
  t.test(`a worker that Redis refuses (${code}) pauses, says so, and goes on`, async (t) => {
    const redis = await redisServer(t);
    const one = await processOn(t, redis);
    const { exporter } = await one.gateway();
    const batches = [nativeBatch(1), nativeBatch(1), nativeBatch(1)];
    await Promise.all(batches.map((batch) => exporter.consume(batch)));
    await begin(redis);
    // A worker of its own process, to which no gateway reports what Redis refused.
    const other = await processOn(t, redis);
    const { sink } = await other.worker();
    await until(async () => (await refused(redis, code)) > 0);
    const componentsOf = () => other.health.report(true).components;
    await until(() => componentsOf().some((each) => each.message === message));
    for (let i = 0; i < ROUND_TRIPS; i++) await redis.client.ping();
    const count = await refused(redis, code);
    t.ok(count < MOST_REFUSALS, `${count} refusals`);
    await end(redis);
    await sink.holds(3);
    t.same(sink.ids().sort(), batches.map(({ id }) => id).sort());
  });
}
