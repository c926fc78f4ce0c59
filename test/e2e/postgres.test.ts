import pg from 'pg';
import t from 'tap';
import { postgresServer } from '../helper/postgres-server.ts';
import { readBackCaptures } from './captures.ts';
import { eventually, json, list, record, send } from './client.ts';
import { type Daemon, startDaemon } from './daemon.ts';
import { onPostgres } from './on-postgres.ts';

/** Runs both pipelines in one process, with queue, observations, projects and usage in Postgres. */

t.setTimeout(300_000);

const server = await postgresServer(t);

t.test('requests of real SDKs read back from Postgres with their content', async (t) => {
  await readBackCaptures(t, await onPostgres(server));
});

t.test('isolates a refused row, and removes a deleted project', async (t) => {
  const options = await onPostgres(server);
  const daemon = await startDaemon(t, options);
  await t.test('stores the other rows of a batch with a refused one', async (t) => {
    await sql(options.url, `ALTER TABLE observations ADD CHECK (name <> 'poison')`);
    await post(daemon, daemon.key, ['a', 'b', 'poison', 'c']);
    t.same(await holds(daemon, daemon.key, 3), ['a', 'b', 'c']);
    const letters = async () => {
      const listed = await daemon.cli('dead-letter', 'list', '--json');
      return list(record(JSON.parse(listed.stdout)).dead_letters);
    };
    t.match(await eventually(letters, ({ length }) => length === 1, 'the dead letter'), [
      { items: 1, code: 'storage_refused', message: /^item 2: .*23514/ },
    ]);
    await sql(options.url, 'ALTER TABLE observations DROP CONSTRAINT observations_name_check');
    await daemon.cli('dead-letter', 'replay', '--all');
    t.same(await holds(daemon, daemon.key, 4), ['a', 'b', 'c', 'poison']);
    t.same(await letters(), []);
  });

  await t.test('no data of a deleted project is left in Postgres', async (t) => {
    const created = await daemon.cli('projects', 'create', 'short-lived', '--json');
    const id = String(record(JSON.parse(created.stdout)).id);
    const { token } = await daemon.createKey('--project', id);
    await post(daemon, token, ['d', 'e']);
    await holds(daemon, token, 2);
    await daemon.cli('projects', 'delete', id, '--yes');
    const tables = ['traces', 'observations', 'batches', 'queue_entries', 'api_keys'];
    const parts = tables.map((name) => `SELECT project FROM ${name}`);
    const held = `SELECT DISTINCT project FROM (${parts.join(' UNION ALL ')}) AS a`;
    const left = await eventually(
      () => sql(options.url, held),
      (rows) => rows.every(({ project }) => project !== id),
      'tables without it',
      30_000,
    );
    t.equal(left.length, 1, 'the other project stays');
    t.same(await holds(daemon, daemon.key, 4), ['a', 'b', 'c', 'poison']);
  });
});

async function post(daemon: Daemon, key: string, given: readonly string[]): Promise<void> {
  const events = given.map((name) => ({
    ...{ id: name, trace_id: 'trace', name, operation: 'finish', kind: 'span', status: 'ok' },
  }));
  const answer = await send(daemon.base, {
    ...{ method: 'POST', path: '/api/v1/observations/batch' },
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ events }),
  });
  if (answer.status !== 202) throw new Error(`${answer.status} ${answer.body.toString()}`);
}

/** Waits until the trace has this many observations, and returns their names. */
function holds(daemon: Daemon, key: string, count: number): Promise<string[]> {
  const names = async () => {
    const headers = { authorization: `Bearer ${key}` };
    const answer = await send(daemon.base, { path: '/api/v1/traces/trace', headers });
    if (answer.status !== 200) return [];
    return list(record(json(answer)).observations).map((one) => String(record(one).name));
  };
  return eventually(
    async () => (await names()).sort(),
    ({ length }) => length === count,
    `${count} observations`,
  );
}

/** Queries the database directly. */
async function sql(url: string, text: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query(text)).rows as Record<string, unknown>[];
  } finally {
    await client.end();
  }
}
