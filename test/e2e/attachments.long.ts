import { randomBytes, randomUUID } from 'node:crypto';
import pg from 'pg';
import t from 'tap';
import type { Answer } from './client.ts';
import { eventually, json, list, record, send } from './client.ts';
import { at, noticeDeathSoon, sql, startCluster } from './cluster.ts';
import type { Target } from './journal.ts';
import { treeAt } from './shipped.ts';

/** Attachments of runs through a gateway and a worker, over a real Redis and a real Postgres. */

t.setTimeout(600_000);

const LIMIT = 300_000;

function multipart(parts: Readonly<Record<string, string | Buffer>>): Buffer {
  const pieces = Object.entries(parts).flatMap(([name, content]) => [
    Buffer.from(`--b\r\nContent-Disposition: form-data; name="${name}"\r\n`),
    Buffer.from('Content-Type: image/png\r\n\r\n'),
    ...[Buffer.from(content), Buffer.from('\r\n')],
  ]);
  return Buffer.concat([...pieces, Buffer.from('--b--\r\n')]);
}

function runOf(id: string): string {
  const times = { start_time: '2026-01-01T00:00:00Z', end_time: '2026-01-01T00:00:01Z' };
  const order = `20260101T000000000000Z${id}`;
  const named = { id, trace_id: id, dotted_order: order, name: 'look', run_type: 'chain' };
  return JSON.stringify({ ...named, ...times, inputs: {}, outputs: {} });
}

async function post({ base, key }: Target, body: Buffer): Promise<number> {
  const headers = { 'x-api-key': key, 'content-type': 'multipart/form-data; boundary=b' };
  const call = { method: 'POST', path: '/runs/multipart', headers, body, timeoutMs: 60_000 };
  return (await send(base, call)).status;
}

function get({ base, key }: Target, path: string): Promise<Answer> {
  return send(base, { path, headers: { 'x-api-key': key }, timeoutMs: 60_000 });
}

/** Sessions that wait for the table that the test has locked. */
const WAITING = "pg_locks WHERE NOT granted AND mode <> 'ShareLock'";

/** The observation of a run that is stored. */
async function stored(target: Target, id: string): Promise<Record<string, unknown>> {
  const answer = await eventually(
    () => get(target, `/api/v1/traces/${id}`),
    ({ status }) => status === 200,
    'the stored trace',
    120_000,
  );
  return record(list(record(json(answer)).observations)[0]);
}

t.test(
  'a run through a gateway has its attachments, also after kill -9 of the worker',
  async (t) => {
    const cluster = await startCluster(t, {
      ...{ gateways: 1, workers: 1, worker: noticeDeathSoon },
      gateway(config) {
        treeAt(config, 'receivers').runs = {
          ...treeAt(config, 'receivers', 'runs'),
          attachments: { max_bytes: LIMIT },
        };
      },
    });
    const target = cluster.target();
    const worker = at(cluster.workers, 0);
    const id = randomUUID();
    const [whole, beyond] = [randomBytes(LIMIT), randomBytes(LIMIT + 1)];
    const files = { [`attachment.${id}.whole`]: whole, [`attachment.${id}.beyond`]: beyond };
    const body = multipart({ [`post.${id}`]: runOf(id), ...files });

    const blocker = new pg.Client({ connectionString: cluster.database });
    blocker.on('error', () => {});
    await blocker.connect();
    t.teardown(() => blocker.end());
    await blocker.query('BEGIN');
    await blocker.query('LOCK TABLE attachment_refs IN EXCLUSIVE MODE');
    t.equal(await post(target, body), 202);
    await eventually(
      () => sql(cluster.database, `SELECT pid FROM ${WAITING}`),
      (waiting) => waiting.length > 0,
      'a write of the worker that waits',
      60_000,
    );
    await worker.end('SIGKILL');
    // Postgres has all statements of the transaction, and would commit it although its client is gone.
    await eventually(
      () => sql(cluster.database, `SELECT pg_terminate_backend(pid) FROM ${WAITING}`),
      (waiting) => waiting.length === 0,
      'the end of the session that waits',
    );
    await blocker.query('ROLLBACK');
    t.equal((await get(target, `/api/v1/traces/${id}`)).status, 404, 'the worker stored nothing');
    await worker.start();

    const observation = await stored(target, id);
    const [found, ...others] = list(observation.attachments).map(record);
    t.match(found, { name: 'whole', mime_type: 'image/png', bytes: LIMIT });
    t.same(others, [], 'one byte past the limit is left out');
    t.match(observation.ignored, [{ path: 'attachments[1]' }]);
    const served = await get(target, String(found?.url));
    t.equal(served.status, 200);
    t.ok(served.body.equals(whole));

    const again = randomUUID();
    const second = { [`post.${again}`]: runOf(again), [`attachment.${again}.whole`]: whole };
    for (let i = 0; i < 2; i++) t.equal(await post(target, multipart(second)), 202);
    t.equal(await post(target, body), 202, 'a repetition');
    t.match((await stored(target, again)).attachments, [{ url: found?.url }]);
    await cluster.drained();
    const counts = await sql(
      cluster.database,
      `SELECT (SELECT count(*)::int FROM attachments) AS contents,
       (SELECT sum(length(bytes))::int FROM attachment_pieces) AS bytes,
       (SELECT count(*)::int FROM attachment_refs) AS refs,
       (SELECT count(*)::int FROM attachment_holds) AS holds`,
    );
    t.same(counts, [{ contents: 1, bytes: LIMIT, refs: 2, holds: 0 }]);
  },
);
