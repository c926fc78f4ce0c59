import t from 'tap';
import type { Postgres } from '../../../extensions/postgres/connection/pool.ts';
import type { HeldLease } from '../../../extensions/postgres/work-leases.ts';
import { leasedSteps, withLease, workLeases } from '../../../extensions/postgres/work-leases.ts';
import { systemClock } from '../../../src/component/clock.ts';
import { eventually } from '../../e2e/client.ts';
import { fakeClock } from '../../helper/clock.ts';
import { migratedDatabase } from '../../helper/migrated-database.ts';
import { postgresDatabases } from '../../helper/postgres-server.ts';
import { migrated } from '../../helper/queue-database.ts';
import { recordingLogger } from '../../helper/settings.ts';

const server = await postgresDatabases(t);
const logger = recordingLogger();
const NOW = '(extract(epoch FROM clock_timestamp()) * 1000)::bigint';

async function place(t: { teardown(end: () => Promise<void>): void }) {
  const postgres = await migrated(await migratedDatabase(server));
  t.teardown(() => postgres.close());
  await postgres.query('CREATE TABLE marks (by text)');
  const leases = workLeases(postgres, systemClock, logger);
  return { postgres, leases, marks: () => marksIn(postgres) };
}

async function marksIn(postgres: Postgres): Promise<unknown[]> {
  const { rows } = await postgres.query('SELECT by FROM marks');
  return rows.map(({ by }) => by);
}

async function held(acquired: Promise<HeldLease | undefined>): Promise<HeldLease> {
  const lease = await acquired;
  if (lease === undefined) throw new Error('another process holds the lease');
  return lease;
}

const expireIn = (postgres: Postgres, ms: number) =>
  postgres.query(`UPDATE work_leases SET expires_at = ${NOW} + $1::bigint`, [ms]);
const mark = (lease: HeldLease, by: string) =>
  lease.database.query('INSERT INTO marks VALUES ($1)', [by]);

t.test('a lease is free once it has expired by the clock of the database', async (t) => {
  const { postgres, leases } = await place(t);
  await held(leases.acquire('work'));
  await held(leases.acquire('other work'));
  await expireIn(postgres, 5_000);
  t.equal(await leases.acquire('work'), undefined);
  await expireIn(postgres, 0);
  t.ok(await leases.acquire('work'));
  t.equal(await leases.acquire('work'), undefined, 'it has a new term');
});

t.test('a lease ends if the clock of the database was ahead when it was renewed', async (t) => {
  const { postgres, leases, marks } = await place(t);
  const dead = await held(leases.acquire('work'));
  const alive = await held(leases.acquire('other work'));
  await expireIn(postgres, 400 * 24 * 3_600_000);
  t.equal(await leases.acquire('work'), undefined, 'a holder that lives has time to renew it');
  t.equal(await leases.acquire('other work'), undefined);
  await postgres.query('UPDATE work_leases SET expires_at = expires_at - 10000');
  await alive.renew();
  t.equal(await leases.acquire('other work'), undefined);
  const lease = await held(leases.acquire('work'));
  await t.rejects(mark(dead, 'dead'), { cause: { code: 'TL001' } });
  await mark(lease, 'holder');
  t.same(await marks(), ['holder']);
});

t.test('a lease that is renewed does not expire', async (t) => {
  const { postgres, leases } = await place(t);
  const lease = await held(leases.acquire('work'));
  for (const step of [
    () => lease.renew(),
    () => mark(lease, 'one'),
    () => lease.database.transaction(async () => {}),
  ]) {
    await expireIn(postgres, 0);
    await step();
    t.equal(await leases.acquire('work'), undefined);
  }
  await lease.release();
  t.ok(await leases.acquire('work'), 'a released lease is free at once');
});

t.test('a holder that lost its lease writes nothing with it', async (t) => {
  const { postgres, leases, marks } = await place(t);
  const lost = await held(leases.acquire('work'));
  await expireIn(postgres, 0);
  const lease = await held(leases.acquire('work'));
  await t.rejects(lost.renew(), { cause: { code: 'TL001' } });
  await t.rejects(mark(lost, 'lost'), { cause: { code: 'TL001' } });
  await t.rejects(
    lost.database.transaction((client) => client.query("INSERT INTO marks VALUES ('lost')")),
    { cause: { code: 'TL001' } },
  );
  await lost.release();
  await mark(lease, 'holder');
  t.same(await marks(), ['holder']);
});

t.test('a holder that is silent in a transaction is cut off, and its step undone', async (t) => {
  const { postgres, marks } = await place(t);
  const leases = workLeases(postgres, systemClock, logger, 100);
  const silent = await held(leases.acquire('work'));
  let speak = (): void => {};
  const isSilent = new Promise<void>((begun) => {
    const step = silent.database.transaction(async (client) => {
      await client.query("INSERT INTO marks VALUES ('silent')");
      begun();
      await new Promise<void>((resolve) => {
        speak = resolve;
      });
    });
    t.rejects(step, { code: 'storage_failed' }).catch(() => {});
  });
  await isSilent;
  const began = Date.now();
  const lease = await held(
    eventually(
      () => leases.acquire('work'),
      (found) => found !== undefined,
      'the lease of a silent holder',
      15_000,
    ),
  );
  t.ok(Date.now() - began > 3_000, 'a holder in the middle of a step keeps its lease');
  speak();
  await mark(lease, 'next');
  t.same(await marks(), ['next']);
});

t.test('a process that was frozen while it renewed its lease renews it again', async (t) => {
  const { postgres, leases } = await place(t);
  const clock = fakeClock();
  let onAnswer = async (): Promise<void> => {};
  const frozen: Pick<Postgres, 'query' | 'transaction'> = {
    ...postgres,
    async query(text, values) {
      const answer = await postgres.query(text, values);
      await onAnswer();
      return answer;
    },
  };
  const lease = await held(workLeases(frozen, clock, logger).acquire('work'));
  onAnswer = async () => clock.set(clock.now() + 4_999);
  await lease.renew();
  onAnswer = async () => {
    clock.set(clock.now() + 5_000);
    await expireIn(postgres, 0);
    await held(leases.acquire('work'));
  };
  await t.rejects(lease.renew(), { cause: { code: 'TL001' } });
});

t.test('work that lost its lease ends, and starts again when the lease is free', async (t) => {
  const { postgres, leases, marks } = await place(t);
  let runs = 0;
  const work = leasedSteps(leases, 'work', { clock: systemClock, logger }, async function* (own) {
    runs++;
    await own.query('INSERT INTO marks VALUES ($1)', [`begin ${runs}`]);
    yield;
    await own.query('INSERT INTO marks VALUES ($1)', [`end ${runs}`]);
  });
  t.equal(await work.step(), true);
  await expireIn(postgres, 0);
  const other = await held(leases.acquire('work'));
  t.equal(await work.step(), false);
  t.equal(await work.step(), false, 'the other process has the lease');
  await other.release();
  t.equal(await work.step(), true);
  t.equal(await leases.acquire('work'), undefined, 'the lease lasts from step to step');
  t.equal(await work.step(), false);
  t.same(await marks(), ['begin 1', 'begin 2', 'end 2']);
  t.ok(await leases.acquire('work'), 'it ends with the work');
});

t.test('several failures are a lost lease if each of them is', async (t) => {
  const { postgres, leases } = await place(t);
  async function failuresOf(
    own: Pick<Postgres, 'query'>,
    statements: string[],
  ): Promise<unknown[]> {
    const outcomes = await Promise.allSettled(statements.map((statement) => own.query(statement)));
    return outcomes.flatMap((one) => (one.status === 'rejected' ? [one.reason] : []));
  }
  for (const [statements, isLost] of [
    [['SELECT 1', 'SELECT 2'], true],
    [['SELECT 1'], false],
  ] as const) {
    const work = leasedSteps(leases, 'work', { clock: systemClock, logger }, async function* (own) {
      yield;
      const failures = await failuresOf(own, [...statements]);
      throw new AggregateError(isLost ? failures : [...failures, new Error('failed')], 'all');
    });
    t.equal(await work.step(), true);
    await expireIn(postgres, 0);
    const other = await held(leases.acquire('work'));
    if (isLost) t.equal(await work.step(), false);
    else await t.rejects(work.step(), { message: 'all' });
    await other.release();
  }
});

t.test('all processes rest after a round', async (t) => {
  const { postgres, leases } = await place(t);
  let runs = 0;
  let rest = 60_000;
  const process = () =>
    leasedSteps(
      ...([leases, 'work', { clock: systemClock, logger }] as const),
      async function* () {
        runs++;
        yield;
      },
      () => rest,
    );
  const [one, other] = [process(), process()];
  t.same([await one.step(), await one.step(), runs], [true, false, 1]);
  t.same([await one.step(), await other.step(), runs], [false, false, 1]);
  await other.finish(async () => {
    while (await other.step());
  });
  t.equal(runs, 2, 'work that is asked for does not rest');
  t.equal(await one.step(), false);
  await expireIn(postgres, 0);
  t.equal(await one.step(), true);
  await one.close();
  t.equal(await other.step(), true, 'a round that is cut off has no rest');
  await other.step();
  await expireIn(postgres, 59_000);
  t.equal(await one.step(), false);
  await expireIn(postgres, 3_600_000);
  t.equal(await one.step(), true, 'the clock of the database was set back by an hour');
  rest = 0;
  await one.step();
  t.equal(await other.step(), true);
  await expireIn(postgres, 3_600_000);
  t.equal(await one.step(), false, 'a lease with a holder does not rest');
});

t.test('a failure in the work is no lost lease', async (t) => {
  const { leases } = await place(t);
  const failing = async (): Promise<void> => {
    throw new Error('failed');
  };
  await t.rejects(withLease(leases, 'work', logger, failing), { message: 'failed' });
  t.equal(await withLease(leases, 'work', logger, async () => {}), true, 'it is released');
});
