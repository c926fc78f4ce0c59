import pg from 'pg';
import t, { type Test } from 'tap';
import { config } from '../../../../extensions/postgres/config.ts';
import { openPools } from '../../../../extensions/postgres/connection/pools.ts';
import { systemClock } from '../../../../src/component/clock.ts';
import { fakeClock } from '../../../helper/clock.ts';
import { postgresDatabases } from '../../../helper/postgres-server.ts';
import { recordingLogger } from '../../../helper/settings.ts';
import { until } from '../../../helper/until.ts';

const server = await postgresDatabases(t);

async function openedPools(t: Test, url: string, clock = systemClock) {
  const logger = recordingLogger();
  const { timeouts } = config.parse({ url, timeouts: { accept: '400ms' } });
  const pools = await openPools({
    ...{ url, connectTimeout: 1000, maxConnections: 2, readConnections: 1 },
    ...{ timeouts, tls: undefined, clock, logger },
  });
  t.teardown(() => pools.close());
  return { pools, logger };
}

async function opened(t: Test, clock = systemClock) {
  const url = await server.database();
  const { pools, logger } = await openedPools(t, url, clock);
  await pools.write.query('CREATE TABLE numbers (n integer PRIMARY KEY)');
  await pools.write.query('INSERT INTO numbers VALUES (1)');
  const other = new pg.Client({ connectionString: url, application_name: 'psql' });
  await other.connect();
  t.teardown(() => other.end());
  await other.query('BEGIN');
  const { rows } = await other.query('SELECT pg_backend_pid() AS pid, current_user AS role');
  return { url, pools, logger, other, pid: Number(rows[0].pid), role: String(rows[0].role) };
}

t.test('names the session that holds a lock, once, in the log and in health', async (t) => {
  const { pools, logger, other, pid, role } = await opened(t);
  await other.query('LOCK TABLE numbers IN ACCESS EXCLUSIVE MODE');
  const inserts = [2, 3].map((n) => pools.write.query('INSERT INTO numbers VALUES ($1)', [n]));
  await until(() => pools.blockedBy() !== undefined);
  t.equal(
    pools.blockedBy(),
    `Statements wait for a lock of the table numbers that session ${pid} of Postgres holds ` +
      `(psql, ${role}, idle in transaction). If it does not end, end it with pg_terminate_backend(${pid}).`,
  );
  t.equal(pools.outage(), undefined, 'Postgres answers');
  await other.query('ROLLBACK');
  await Promise.all(inserts);
  t.match(logger.lines, [
    {
      level: 'warn',
      message: 'Statements wait for a lock of another session of Postgres',
      fields: { holders: [{ pid, application: 'psql', role, relation: 'numbers' }] },
    },
  ]);
});

t.test('names the session behind others that wait for it, and the lock of a row', async (t) => {
  const { pools, logger, other, pid } = await opened(t);
  await other.query('UPDATE numbers SET n = 7 WHERE n = 1');
  const change = () => pools.write.query('UPDATE numbers SET n = 8 WHERE n = 1');
  const changes = [change(), change()];
  await until(() => pools.blockedBy() !== undefined);
  t.match(pools.blockedBy(), new RegExp(`^Statements wait for a lock that session ${pid} `));
  t.match(logger.lines, [{ fields: { holders: [{ pid, relation: null }] } }]);
  await other.query('ROLLBACK');
  await Promise.all(changes);
});

t.test('forgets the session five seconds after the last statement waited for it', async (t) => {
  const clock = fakeClock();
  const { pools, other } = await opened(t, clock);
  await other.query('LOCK TABLE numbers IN ACCESS EXCLUSIVE MODE');
  const waiting = pools.write.query('INSERT INTO numbers VALUES (2)');
  await until(async () => {
    const { rows } = await other.query('SELECT FROM pg_locks WHERE NOT granted');
    return rows.length > 0;
  });
  clock.advance(1_000);
  await until(() => pools.blockedBy() !== undefined);
  await other.query('ROLLBACK');
  await waiting;
  clock.advance(5_000);
  t.not(pools.blockedBy(), undefined);
  clock.advance(1);
  t.equal(pools.blockedBy(), undefined);
});

t.test('takes no slow statement for one that waits', async (t) => {
  const { pools, logger } = await opened(t);
  await t.rejects(pools.accept.query('SELECT pg_sleep(30)'));
  await pools.verify.query('SELECT 1');
  t.equal(pools.blockedBy(), undefined);
  t.same(logger.lines, []);
});

t.test('leaves out a young transaction of the daemon, which ends soon', async (t) => {
  const { pools, logger, other } = await opened(t);
  await other.query("SET application_name = 'tracectl'");
  await other.query('LOCK TABLE numbers IN ACCESS EXCLUSIVE MODE');
  const waiting = pools.accept.query('INSERT INTO numbers VALUES (2)');
  await t.rejects(waiting);
  await pools.verify.query('SELECT 1');
  t.equal(pools.blockedBy(), undefined);
  t.same(logger.lines, []);
});

t.test('a server that has no connection for the look is no outage', async (t) => {
  const { url, pools, other } = await opened(t);
  const role = `limited_${process.pid}`;
  await pools.write.query(`CREATE ROLE ${role} LOGIN PASSWORD 'x' CONNECTION LIMIT 1`);
  await pools.write.query(`GRANT INSERT ON numbers TO ${role}`);
  const address = new URL(url);
  Object.assign(address, { username: role, password: 'x' });
  const limited = await openedPools(t, address.href);
  await limited.pools.accept.query('SELECT 1');
  await other.query('LOCK TABLE numbers IN ACCESS EXCLUSIVE MODE');
  await t.rejects(limited.pools.accept.query('INSERT INTO numbers VALUES (2)'), {
    code: 'statement_timeout',
  });
  t.equal(limited.pools.outage(), undefined);
  await t.rejects(limited.pools.verify.query('SELECT 1'), { cause: { code: '53300' } });
  await other.query('ROLLBACK');
  await other.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`);
});
