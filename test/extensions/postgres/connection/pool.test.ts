import { type AddressInfo, connect, createServer } from 'node:net';
import pg from 'pg';
import t, { type Test } from 'tap';
import type { Postgres } from '../../../../extensions/postgres/connection/pool.ts';
import { openPostgres } from '../../../../extensions/postgres/connection/pool.ts';
import type { Question, Statement } from '../../../../extensions/postgres/connection/statement.ts';
import { systemClock } from '../../../../src/component/clock.ts';
import { postgresDatabases } from '../../../helper/postgres-server.ts';
import { recordingLogger } from '../../../helper/settings.ts';

const server = await postgresDatabases(t);

async function opened(t: Test, more: object = {}): Promise<{ postgres: Postgres; url: string }> {
  const url = await server.database();
  const postgres = await openPostgres({
    ...{ url, maxConnections: 2, connectTimeout: 5000, queryTimeout: 5000 },
    ...{ tls: undefined, clock: systemClock, logger: recordingLogger(), ...more },
  });
  t.teardown(() => postgres.close());
  await postgres.query('CREATE TABLE numbers (n integer PRIMARY KEY CHECK (n > 0))');
  return { postgres, url };
}

async function numbers(postgres: Postgres): Promise<number[]> {
  const { rows } = await postgres.query('SELECT n FROM numbers ORDER BY n');
  return rows.map(({ n }) => Number(n));
}

async function pidOf(client: Pick<Postgres, 'query'>): Promise<number> {
  const { rows } = await client.query('SELECT pg_backend_pid() AS pid');
  return Number(rows[0]?.pid);
}

/** Ends a connection as an operator or a server that shuts down does. */
async function terminate(url: string, pid: number): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query('SELECT pg_terminate_backend($1)', [pid]);
  await client.end();
}

async function pidAfter(client: Pick<Postgres, 'query'>, ms: number): Promise<number> {
  const { rows } = await client.query('SELECT pg_backend_pid() AS pid, pg_sleep($1)', [ms / 1000]);
  return Number(rows[0]?.pid);
}

t.test('rolls a rejected transaction back and keeps its connection', async (t) => {
  const { postgres } = await opened(t, { maxConnections: 1 });
  const before = await pidOf(postgres);
  const refused = postgres.transaction(async (client) => {
    await client.query('INSERT INTO numbers VALUES (1)');
    await client.query('INSERT INTO numbers VALUES (0)');
  });
  await t.rejects(refused, { name: 'PermanentError', code: 'storage_refused' });
  t.same(await numbers(postgres), []);
  t.equal(await pidOf(postgres), before);
});

t.test('replaces a connection that breaks inside a transaction', async (t) => {
  const { postgres, url } = await opened(t, { maxConnections: 1 });
  let later: Promise<unknown> = Promise.resolve();
  const broken = postgres.transaction(async (client) => {
    await client.query('INSERT INTO numbers VALUES (1)');
    await terminate(url, await pidOf(client));
    await client.query('INSERT INTO numbers VALUES (2)').catch((error: unknown) => {
      later = client.query('INSERT INTO numbers VALUES (3)');
      later.catch(() => {});
      throw error;
    });
  });
  await t.rejects(broken, { name: 'RetryableError', code: 'storage_failed' });
  await t.rejects(later, { name: 'RetryableError' }, 'no further statement is sent');
  t.same(await numbers(postgres), [], 'on another connection');
});

t.test('replaces a connection that breaks while it is idle', async (t) => {
  const { postgres, url } = await opened(t, { maxConnections: 1 });
  await terminate(url, await pidOf(postgres));
  // A statement that is sent before the pool notices may still fail.
  await numbers(postgres).catch(() => {});
  t.same(await numbers(postgres), []);
});

t.test('stops using older connections after one of them breaks', async (t) => {
  const { postgres, url } = await opened(t, { maxConnections: 3 });
  const both = await Promise.all([postgres, postgres].map(() => pidAfter(postgres, 50)));
  t.equal(new Set(both).size, 2, 'two connections');
  await t.rejects(
    postgres.transaction(async (client) => {
      await terminate(url, await pidOf(client));
      await client.query('SELECT 1');
    }),
    { code: 'storage_failed' },
  );
  t.match(postgres.outage(), { isAway: true });
  t.notOk(both.includes(await pidOf(postgres)), 'a new one');
  t.equal(postgres.outage(), undefined);
});

t.test('leaves a read-only server for the one that took over', async (t) => {
  const { postgres } = await opened(t, { maxConnections: 1 });
  const before = await pidOf(postgres);
  await postgres.query('SET default_transaction_read_only = on');
  const insert = () => postgres.query('INSERT INTO numbers VALUES (1)');
  await t.rejects(insert(), { name: 'RetryableError', code: 'storage_failed' });
  t.match(postgres.outage(), { isAway: false, message: /read-only/ });
  t.not(await pidOf(postgres), before);
  await insert();
  t.same(await numbers(postgres), [1]);
});

t.test('leaves connections that only read from a read-only server, too', async (t) => {
  const { postgres } = await opened(t, { maxConnections: 2 });
  const reading = await postgres.transaction(async (client) => {
    const pid = await pidOf(client);
    const writing = postgres.transaction(async (other) => {
      await other.query('SET TRANSACTION READ ONLY');
      await other.query('INSERT INTO numbers VALUES (1)');
    });
    await t.rejects(writing, { code: 'storage_failed' });
    t.equal(await pidOf(client), pid, 'it still answers');
    return pid;
  });
  t.not(await pidOf(postgres), reading);
});

t.test('cancels a slow statement, at the server too', async (t) => {
  const { postgres } = await opened(t, { queryTimeout: 1000 });
  const { postgres: other } = await opened(t);
  const slow = postgres.query('WITH slept AS (SELECT pg_sleep(30)) SELECT 7227 FROM slept');
  await t.rejects(slow, { name: 'RetryableError', code: 'statement_timeout' });
  t.equal(postgres.outage(), undefined, 'Postgres is not away');
  for (;;) {
    const { rows } = await other.query(
      `SELECT 1 FROM pg_stat_activity
       WHERE state = 'active' AND pid <> pg_backend_pid() AND query LIKE '%7227%'`,
    );
    if (rows.length === 0) break;
  }
});

t.test(
  'bounds all statements of a transaction with a deadline together, and keeps none of them',
  async (t) => {
    const { postgres } = await opened(t, { queryTimeout: 2500 });
    const sleep = 'SELECT pg_sleep(1.5)';
    const inTime = postgres.transaction(async (client) => {
      await client.query('INSERT INTO numbers VALUES (1)');
      await client.query(sleep);
      await client.query(sleep);
    });
    await inTime;
    const late = postgres.transactionWithDeadline(async (client) => {
      await client.query('INSERT INTO numbers VALUES (2)');
      await client.query(sleep);
      await client.query(sleep);
    });
    await t.rejects(late, { name: 'RetryableError', code: 'storage_failed' });
    t.same(await numbers(postgres), [1], 'without a deadline each statement has the whole time');
  },
);

/** Parameters of a new connection that PgBouncer takes without a setting of its own. */
const POOLED = ['user', 'database', 'application_name', 'client_encoding'];

type Front = { readonly url: string; readonly parameters: string[] };

/** An address in front of the server, which notes the parameters that connections begin with; `change` changes what is sent. */
async function front(t: Test, url: string, change = (sent: string) => sent): Promise<Front> {
  const { port, hostname } = new URL(url);
  const parameters: string[] = [];
  const listener = createServer((client) => {
    const server = connect(Number(port), hostname);
    for (const socket of [client, server]) socket.on('error', () => client.destroy());
    // The length and the version have 8 bytes; then a name and its value follow each other.
    client.once('data', (bytes: Buffer) => {
      const texts = bytes.subarray(8).toString().split('\0');
      parameters.push(...texts.filter((text, i) => i % 2 === 0 && text !== ''));
    });
    client.on('data', (bytes: Buffer) => server.write(change(bytes.toString('latin1')), 'latin1'));
    client.on('close', () => server.destroy());
    server.pipe(client);
  });
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve));
  t.teardown(() => listener.close());
  const through = new URL(url);
  through.port = `${(listener.address() as AddressInfo).port}`;
  return { url: through.href, parameters };
}

/** The server's time-outs of a connection, in milliseconds. */
async function timeoutsAt(url: string): Promise<Record<string, unknown>> {
  const postgres = await openPostgres({
    ...{ url, maxConnections: 1, connectTimeout: 1000, queryTimeout: 1500 },
    ...{ tls: undefined, clock: systemClock, logger: recordingLogger() },
  });
  const { rows } = await postgres.query(
    `SELECT name, setting FROM pg_settings
     WHERE name IN ('statement_timeout', 'idle_in_transaction_session_timeout')`,
  );
  await postgres.close();
  return Object.fromEntries(rows.map(({ name, setting }) => [String(name), setting]));
}

const TIMEOUTS = { statement_timeout: '1500', idle_in_transaction_session_timeout: '3000' };

t.test('begins a connection as a pooler takes it, and has its time-outs', async (t) => {
  const { url } = await opened(t);
  const { url: through, parameters } = await front(t, url);
  t.same(await timeoutsAt(through), TIMEOUTS);
  const refused = parameters.filter((name) => !POOLED.includes(name));
  t.same(refused, []);
});

t.test('has its time-outs at a server that does not know a parameter of liveness', async (t) => {
  const { url } = await opened(t);
  const change = (sent: string) => sent.replace('tcp_user_timeout', 'tcp_else_timeout');
  const { url: through } = await front(t, url, change);
  t.same(await timeoutsAt(through), TIMEOUTS);
});

t.test('rejects a caller that finds no free connection in time', async (t) => {
  const { postgres } = await opened(t, { maxConnections: 1, connectTimeout: 100 });
  const holding = Promise.withResolvers<void>();
  const held = postgres.transaction(() => holding.promise);
  await t.rejects(postgres.query('SELECT 1'), {
    ...{ name: 'RetryableError', code: 'storage_failed' },
    message: 'Every connection to Postgres is in use',
  });
  t.equal(postgres.outage(), undefined, 'the server is not away');
  holding.resolve();
  await held;
  t.same((await postgres.query('SELECT 1 AS n')).rows, [{ n: 1 }]);
});

const insert = (n: number): Statement => ['INSERT INTO numbers VALUES ($1)', [n]];

t.test('runs each of the statements sent together on what is committed before it', async (t) => {
  const { postgres, url } = await opened(t);
  const observer = new pg.Client({ connectionString: url });
  await observer.connect();
  t.teardown(() => observer.end());
  const count: Question<number> = {
    statement: ['SELECT count(*) AS count FROM numbers', []],
    answer: ({ rows: [row] }) => Number(row?.count),
  };
  const locked: Question<boolean> = {
    statement: ['SELECT pg_advisory_xact_lock($1) IS NULL AS is_null', [1]],
    answer: ({ rows: [row] }) => row?.is_null === false,
  };
  const holds = Promise.withResolvers<void>();
  const asked = Promise.withResolvers<void>();
  const first = postgres.transaction(async (client) => {
    await client.query('SELECT pg_advisory_xact_lock($1)', [1]);
    holds.resolve();
    await asked.promise;
    await client.commit([insert(1)]);
  });
  await holds.promise;
  const seen = postgres.transaction((client) => client.together([count, locked, count]));
  for (;;) {
    const { rows } = await observer.query(
      `SELECT 1 FROM pg_stat_activity
       WHERE datname = current_database() AND wait_event = 'advisory'`,
    );
    if (rows.length > 0) break;
  }
  asked.resolve();
  await first;
  t.same(await seen, [0, true, 1]);
});

t.test('skips the statements sent behind one that fails', async (t) => {
  const { postgres } = await opened(t, { maxConnections: 1 });
  const before = await pidOf(postgres);
  const none = (statement: Statement): Question<void> => ({ statement, answer: () => {} });
  const failing = postgres.transaction((client) =>
    client.together([insert(1), insert(0), insert(2)].map(none)),
  );
  await t.rejects(failing, { name: 'PermanentError', code: 'storage_refused' });
  t.same(await numbers(postgres), []);
  const committing = postgres.transaction((client) => client.commit([insert(1), insert(1)]));
  await t.rejects(committing, { name: 'PermanentError', code: 'storage_refused' });
  t.same(await numbers(postgres), []);
  t.equal(await pidOf(postgres), before, 'the connection goes on');
});

t.test('has committed the last statements when they are answered', async (t) => {
  const { postgres } = await opened(t);
  await postgres.transaction(async (client) => {
    await client.query('INSERT INTO numbers VALUES (1)');
    const [, found] = await client.commit([insert(2), ['SELECT count(*) AS n FROM numbers', []]]);
    t.same(found?.rows, [{ n: '2' }]);
    t.same(await numbers(postgres), [1, 2], 'on another connection');
  });
  await postgres.transaction(async (client) => client.commit([insert(3)]));
  await t.rejects(
    postgres.transaction(async (client) => {
      await client.commit([insert(4)]);
      throw new Error('too late');
    }),
    { message: 'too late' },
  );
  t.same(await numbers(postgres), [1, 2, 3, 4]);
});

t.test('replaces a connection that breaks under statements sent together', async (t) => {
  const { postgres } = await opened(t, { maxConnections: 1, queryTimeout: 2000 });
  const broken = postgres.transaction((client) =>
    client.commit([insert(1), ['SELECT pg_terminate_backend(pg_backend_pid())', []]]),
  );
  await t.rejects(broken, { name: 'RetryableError', code: 'storage_failed' });
  t.same(await numbers(postgres), []);
  const late = postgres.transaction((client) =>
    client.commit([insert(1), ['SELECT pg_sleep(30)', []]]),
  );
  await t.rejects(late, { name: 'RetryableError', code: 'statement_timeout' });
  t.same(await numbers(postgres), []);
});

t.test('reads bigint as a number and numeric as text', async (t) => {
  const { postgres } = await opened(t);
  const values = 'SELECT 9007199254740991::bigint AS n, 18446744073709551615::numeric AS version';
  const expected = [{ n: Number.MAX_SAFE_INTEGER, version: '18446744073709551615' }];
  t.same((await postgres.query(values)).rows, expected);
  const [result] = await postgres.transaction((client) => client.commit([[values, []]]));
  t.same(result?.rows, expected, 'in statements sent together');
});

/** Defaults of a role or database that a statement must not depend on. */
const OTHER_DEFAULTS = [
  ['default_transaction_isolation', 'serializable', 'read committed'],
  ['standard_conforming_strings', 'off', 'on'],
  ['extra_float_digits', '-10', '1'],
  ['array_nulls', 'off', 'on'],
  ['lock_timeout', '1ms', '0'],
  ['synchronous_commit', 'off', 'on'],
] as const;

t.test('depends on no default of the role or the database', async (t) => {
  const { url, postgres } = await opened(t);
  const name = new URL(url).pathname.slice(1);
  for (const [setting, value] of OTHER_DEFAULTS) {
    await postgres.query(`ALTER DATABASE ${name} SET ${setting} = '${value}'`);
  }
  const other = await openPostgres({
    ...{ url, maxConnections: 2, connectTimeout: 5000, queryTimeout: 5000 },
    ...{ tls: undefined, clock: systemClock, logger: recordingLogger() },
  });
  t.teardown(() => other.close());
  for (const [setting, , relied] of OTHER_DEFAULTS) {
    const { rows } = await other.query('SELECT current_setting($1) AS value', [setting]);
    t.equal(rows[0]?.value, relied, setting);
  }
  const text = String.raw`a\b`;
  const { rows } = await other.query(String.raw`SELECT 'a\b' AS text, 0.1 + 0.2::float8 AS sum`);
  t.same(rows, [{ text, sum: 0.1 + 0.2 }]);
  await other.transaction(async (client) => {
    t.same((await client.query('SELECT n FROM numbers', [])).rows, []);
    await postgres.query('INSERT INTO numbers VALUES (1)');
    const { rows } = await client.query('SELECT n FROM numbers', []);
    t.same(rows, [{ n: 1 }], 'a statement sees the commits before it');
  });
});

t.test('leaves another way of waiting for a standby as it is', async (t) => {
  const { url, postgres } = await opened(t);
  const name = new URL(url).pathname.slice(1);
  await postgres.query(`ALTER DATABASE ${name} SET synchronous_commit = 'remote_apply'`);
  const other = await openPostgres({
    ...{ url, maxConnections: 1, connectTimeout: 5000, queryTimeout: 5000 },
    ...{ tls: undefined, clock: systemClock, logger: recordingLogger() },
  });
  t.teardown(() => other.close());
  const { rows } = await other.query('SHOW synchronous_commit');
  t.same(rows, [{ synchronous_commit: 'remote_apply' }]);
});
