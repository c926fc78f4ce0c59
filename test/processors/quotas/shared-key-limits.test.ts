import t from 'tap';
import { config as quotasConfig } from '../../../processors/quotas/config.ts';
import type { RunScript } from '../../../processors/quotas/scripts.ts';
import { RELEASE_KEY } from '../../../processors/quotas/scripts.ts';
import { sharedKeyLimits } from '../../../processors/quotas/shared-key-limits.ts';
import { systemClock } from '../../../src/component/clock.ts';
import { RetryableError } from '../../../src/model/errors.ts';
import { fakeClock } from '../../helper/clock.ts';
import { recordingLogger } from '../../helper/settings.ts';
import { memoryLedger } from '../../helper/shared-ledger.ts';
import { until } from '../../helper/until.ts';
import { countingReplicas, NOW, newOrganization } from './counting-replicas.ts';

const { server, replica } = await countingReplicas(t);

t.test('limits the requests of a key over all replicas', async (t) => {
  const limitsOf = async (edge: object) => {
    const config = quotasConfig.parse({ store: 'postgres', counters: 'redis', edge }).edge;
    const { run, key } = await replica(t, memoryLedger());
    return sharedKeyLimits(config, { run, key, clock: systemClock, logger: recordingLogger() });
  };

  t.test('in flight', async (t) => {
    const [a, b] = [await limitsOf({ max_in_flight: 2 }), await limitsOf({ max_in_flight: 2 })];
    const name = `key_${newOrganization()}`;
    const first = await a.admit(name);
    t.equal((await b.admit(name)).admitted, true);
    t.match(await a.admit(name), { admitted: false, limit: 'in_flight' });
    t.match(await b.admit(name), { admitted: false, limit: 'in_flight' });
    if (first.admitted) first.release?.();
    await a.close();
    t.equal((await b.admit(name)).admitted, true, 'one request has ended');
    t.equal((await b.admit(`${name}_other`)).admitted, true);
  });

  t.test('in flight, those of a dead process for 120 s by the clock of Redis', async (t) => {
    const config = quotasConfig.parse({ store: 'postgres', edge: { max_in_flight: 1 } }).edge;
    const { run, key } = await replica(t, memoryLedger());
    const parts = { run, key, clock: systemClock, logger: recordingLogger() };
    const limits = sharedKeyLimits(config, parts);
    const name = `key_${newOrganization()}`;
    t.equal((await limits.admit(name)).admitted, true);
    // By microseconds.
    const age = `for _, id in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
      redis.call('ZINCRBY', KEYS[1], -ARGV[1], id)
    end`;
    await run(age, [key(name, 'in-flight')], [110e6]);
    t.equal((await limits.admit(name)).admitted, false);
    await run(age, [key(name, 'in-flight')], [10e6]);
    t.equal((await limits.admit(name)).admitted, true, 'after 120 s');
  });

  t.test('in flight, without those that ended or were refused while Redis failed', async (t) => {
    const config = quotasConfig.parse({ store: 'postgres', edge: { max_in_flight: 2 } }).edge;
    const { run, key } = await replica(t, memoryLedger());
    const clock = fakeClock(NOW);
    let isFailing = false;
    const failing: RunScript = async (script, keys, args) => {
      if (isFailing && script === RELEASE_KEY) throw new RetryableError('redis_failed', 'away');
      const answer = await run(script, keys, args);
      if (isFailing) throw new RetryableError('redis_failed', 'the answer was lost');
      return answer;
    };
    const limits = sharedKeyLimits(config, { run: failing, key, clock, logger: recordingLogger() });
    const name = `key_${newOrganization()}`;
    const inFlight = () => server.client.zcard(key(name, 'in-flight'));
    const first = await limits.admit(name);
    isFailing = true;
    if (first.admitted) first.release?.();
    await t.rejects(async () => limits.admit(name), { code: 'redis_failed' });
    clock.advance(100);
    await until(() => clock.pending() === 1);
    t.equal(await inFlight(), 2, 'Redis counts the ended request, and the one without an answer');
    isFailing = false;
    clock.advance(1000);
    await until(async () => (await inFlight()) === 0);
    t.equal((await limits.admit(name)).admitted, true);
    await limits.close();
  });

  t.test('in flight, those that ended while Redis failed are released at a stop', async (t) => {
    const config = quotasConfig.parse({ store: 'postgres', edge: { max_in_flight: 2 } }).edge;
    const { run, key } = await replica(t, memoryLedger());
    const clock = fakeClock(NOW);
    let isFailing = true;
    const failing: RunScript = async (script, keys, args) => {
      if (isFailing && script === RELEASE_KEY) throw new RetryableError('redis_failed', 'away');
      return run(script, keys, args);
    };
    const limits = sharedKeyLimits(config, { run: failing, key, clock, logger: recordingLogger() });
    const name = `key_${newOrganization()}`;
    const first = await limits.admit(name);
    if (first.admitted) first.release?.();
    clock.advance(100);
    await until(() => clock.pending() === 1);
    isFailing = false;
    await limits.close();
    t.equal(await server.client.zcard(key(name, 'in-flight')), 0);
  });

  t.test('of one moment exactly', async (t) => {
    const keys = await limitsOf({ requests_per_second: 0.01, burst: 5, max_in_flight: 3 });
    const name = `key_${newOrganization()}`;
    const admit = (count: number) =>
      Promise.all(Array.from({ length: count }, () => keys.admit(name)));
    const first = await admit(6);
    t.same(
      first.map((each) => (each.admitted ? 'ok' : each.limit)),
      [...['ok', 'ok', 'ok', 'in_flight', 'in_flight', 'in_flight']],
    );
    for (const each of first) if (each.admitted) each.release?.();
    await keys.close();
    const second = await admit(4);
    t.same(
      second.map((each) => (each.admitted ? 'ok' : each.limit)),
      [...['ok', 'ok', 'request_rate', 'request_rate']],
    );
    const wait = second.map((each) => (each.admitted ? 0 : each.retryAfterMs));
    t.ok(
      wait.slice(2).every((ms) => ms > 0 && ms <= 100_000),
      `${wait}`,
    );
  });

  t.test('by rate', async (t) => {
    const edge = { requests_per_second: 0.01, burst: 3 };
    const [a, b] = [await limitsOf(edge), await limitsOf(edge)];
    const name = `key_${newOrganization()}`;
    const answers = [];
    for (const limits of [a, b, a, b]) answers.push(await limits.admit(name));
    t.same(
      answers.map(({ admitted }) => admitted),
      [true, true, true, false],
    );
    t.match(answers[3], { limit: 'request_rate' });
    const wait = answers[3]?.admitted === false ? answers[3].retryAfterMs : 0;
    t.ok(wait > 90_000 && wait <= 100_000, `${wait}`);
  });
});
