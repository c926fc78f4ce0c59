import pg from 'pg';
import type { Test } from 'tap';
import t from 'tap';
import type { Holder } from '../../../extensions/postgres/queue/holder.ts';
import { postgresIdempotency } from '../../../extensions/postgres/queue/idempotency.ts';
import { RetryableError } from '../../../src/model/errors.ts';
import { eventually } from '../../e2e/client.ts';
import { aTenant } from '../../helper/batches.ts';
import { fakeClock } from '../../helper/clock.ts';
import { migratedDatabase } from '../../helper/migrated-database.ts';
import { postgresDatabases } from '../../helper/postgres-server.ts';
import { databaseOf, migrated, withClock } from '../../helper/queue-database.ts';
import { recordingLogger } from '../../helper/settings.ts';
import { until } from '../../helper/until.ts';

const server = await postgresDatabases(t);
const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const nothing = async () => {};
const HOLDER: Holder = {
  ...{ id: 'holder', term: () => 0, confirm: nothing, reap: nothing, close: nothing },
  ...{ onLost() {}, crash() {} },
};

t.test('the removal of expired answers spares one that is renewed while it waits', async (t) => {
  const url = await migratedDatabase(server);
  const postgres = await migrated(url);
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  t.teardown(async () => {
    await client.end();
    await postgres.close();
  });
  const clock = fakeClock();
  const expired = clock.now();
  for (const key of ['renewed', 'expired']) {
    await client.query(
      `INSERT INTO idempotency (hash, request_hash, project, claim, status, expires_at)
       VALUES ($1, '', 'p', '', 202, $2)`,
      [Buffer.from(key), expired],
    );
  }
  const { expireStep } = postgresIdempotency(
    withClock(databaseOf(postgres), clock),
    HOLDER,
    clock,
    recordingLogger(),
  );
  await client.query('BEGIN');
  await client.query('UPDATE idempotency SET expires_at = expires_at + 1 WHERE hash = $1', [
    Buffer.from('renewed'),
  ]);
  const removal = expireStep();
  await eventually(
    async () => (await waiting(url)).length,
    (count) => count === 1,
    'a removal that waits for the row',
  );
  await client.query('COMMIT');
  t.equal(await removal, false);
  const { rows } = await client.query('SELECT hash FROM idempotency');
  t.same(
    rows.map(({ hash }) => String(hash)),
    ['renewed'],
  );
  clock.advance(1);
  await expireStep();
  const { rows: left } = await client.query('SELECT hash FROM idempotency');
  t.same(left, []);
});

t.test('answers expire by the clock of the database, and by an index', async (t) => {
  const postgres = await migrated(await migratedDatabase(server));
  t.teardown(() => postgres.close());
  const clock = fakeClock(Date.now() + 400 * DAY);
  const plans: string[] = [];
  const query: typeof postgres.query = async (text, values) => {
    const { rows } = await postgres.query(`EXPLAIN ${text}`, values);
    plans.push(rows.map((row) => row['QUERY PLAN']).join('\n'));
    return postgres.query(text, values);
  };
  const database = { ...databaseOf(postgres), query };
  const { expireStep } = postgresIdempotency(database, HOLDER, clock, recordingLogger());
  await postgres.query(
    `INSERT INTO idempotency (hash, request_hash, project, claim, status, expires_at)
     SELECT sha256(n::text::bytea), '', 'p', '', 202, $1::bigint + n * $2::bigint - $2::bigint / 2
     FROM generate_series(-2000, 20000) AS g (n)`,
    [Date.now(), HOUR],
  );
  await postgres.query('ANALYZE idempotency');
  while (await expireStep());
  const { rows } = await postgres.query('SELECT count(*)::int AS left FROM idempotency');
  t.same(rows, [{ left: 20_000 }], 'the process is ahead by 400 days');
  for (const plan of plans) {
    t.match(plan, /Index Scan using idempotency_by_expiry/);
    t.notMatch(plan, 'Seq Scan');
  }
});

/** The ledgers of two processes; the first one loses its database, or an answer of it. */
async function twoProcesses(t: Test) {
  const postgres = await migrated(await migratedDatabase(server));
  t.teardown(() => postgres.close());
  const clock = fakeClock();
  for (const id of ['holder', 'other']) {
    await postgres.query('INSERT INTO queue_holders (id, expires_at) VALUES ($1, $2)', [
      id,
      Number.MAX_SAFE_INTEGER,
    ]);
  }
  const trouble = { isAway: false, losesAnswers: false };
  const database = databaseOf(postgres, new Set(), () => trouble.isAway);
  const query: typeof database.query = async (text, values) => {
    const answer = await database.query(text, values);
    if (trouble.losesAnswers) throw new RetryableError('storage_failed', 'the connection broke');
    return answer;
  };
  const logger = recordingLogger();
  const one = postgresIdempotency({ ...database, accepting: { query } }, HOLDER, clock, logger);
  const holder = { ...HOLDER, id: 'other' };
  const other = postgresIdempotency(databaseOf(postgres), holder, clock, logger);
  t.teardown(() => one.close());
  const claimedBy = (ledger: typeof one) => ledger.claim(aTenant(), 'key', Buffer.alloc(32, 1));
  return {
    ...{ clock, trouble, one, logger },
    claimed: () => claimedBy(one),
    stateForOther: async () => (await claimedBy(other)).state,
  };
}

t.test('a release of a claim that fails is repeated', async (t) => {
  const { clock, trouble, one, logger, claimed, stateForOther } = await twoProcesses(t);
  const claim = await claimed();
  trouble.isAway = true;
  if (claim.state === 'new') claim.release();
  await until(() => clock.pending() === 1);
  clock.advance(1000);
  await until(() => clock.pending() === 1);
  t.equal(logger.lines.filter(({ level }) => level === 'warn').length, 2);
  t.equal(await stateForOther(), 'in_progress');
  trouble.isAway = false;
  clock.advance(1000);
  await eventually(stateForOther, (state) => state === 'new', 'a claim of another process');
  t.equal(clock.pending(), 0);
  one.close();
});

t.test('releases a claim whose answer did not arrive', async (t) => {
  const { trouble, claimed, stateForOther } = await twoProcesses(t);
  trouble.losesAnswers = true;
  await t.rejects(claimed(), { code: 'storage_failed' });
  await eventually(stateForOther, (state) => state === 'new', 'a claim of another process');
});

t.test('a process claims a key again whose release has not reached the database', async (t) => {
  const { clock, trouble, claimed, stateForOther } = await twoProcesses(t);
  const first = await claimed();
  trouble.isAway = true;
  if (first.state === 'new') first.release();
  await until(() => clock.pending() === 1);
  trouble.isAway = false;
  t.equal(await stateForOther(), 'in_progress');
  t.equal((await claimed()).state, 'new');
});

t.test('a closed ledger repeats no release', async (t) => {
  const { clock, trouble, one, claimed } = await twoProcesses(t);
  const claim = await claimed();
  trouble.isAway = true;
  if (claim.state === 'new') claim.release();
  await until(() => clock.pending() === 1);
  one.close();
  t.equal(clock.pending(), 0);
});

async function waiting(url: string): Promise<unknown[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const { rows } = await client.query(
    "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
  );
  await client.end();
  return rows;
}
