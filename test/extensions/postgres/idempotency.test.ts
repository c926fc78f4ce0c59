import pg from 'pg';
import t from 'tap';
import type { Holder } from '../../../extensions/postgres/queue/holder.ts';
import { postgresIdempotency } from '../../../extensions/postgres/queue/idempotency.ts';
import { eventually } from '../../e2e/client.ts';
import { fakeClock } from '../../helper/clock.ts';
import { postgresDatabases } from '../../helper/postgres-server.ts';
import { databaseOf, migrated } from '../../helper/queue-database.ts';
import { recordingLogger } from '../../helper/settings.ts';

const server = await postgresDatabases(t);
const nothing = async () => {};
const HOLDER: Holder = {
  ...{ id: 'holder', term: () => 0, confirm: nothing, reap: nothing, close: nothing },
  ...{ onLost() {}, crash() {} },
};

t.test('the removal of expired answers spares one that is renewed while it waits', async (t) => {
  const url = await server.database();
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
    databaseOf(postgres),
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

async function waiting(url: string): Promise<unknown[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const { rows } = await client.query(
    "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
  );
  await client.end();
  return rows;
}
