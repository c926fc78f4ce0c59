import { Agent, request } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import pg from 'pg';
import t from 'tap';
import { postgresServer } from '../../helper/postgres-server.ts';
import { eventually, list, record, send } from '../client.ts';
import type { Daemon, DaemonOptions } from '../daemon.ts';
import { startDaemon, total } from '../daemon.ts';
import { drawn } from '../drawn.ts';
import { onPostgres } from '../on-postgres.ts';
import { span } from './listings.ts';
import { victimKey } from './victim.ts';

/** A hundred clients of four projects that read all kinds of answers, and leave some of them, beside ingestion. */

t.setTimeout(300_000);

const server = await postgresServer(t);

const MIB = 1_048_576;
const READERS_A_PROJECT = 25;
const TRACES = 300;
const CALLS = 8;
const READING_MS = 20_000;

const TARGETS = [
  '/traces?limit=100',
  '/traces?q=model:m-3%20user:u-1',
  '/traces?q=chat&limit=50',
  '/traces?q=-status:error%20latency:%3E1ms',
  '/traces?sort=cost&from=2020-01-01T00:00:00Z',
  '/traces/t-7?payloads=true',
  '/traces/t-9?fields=tree',
  '/traces/t-11/otlp',
  '/sessions?limit=20',
  '/users?q=model:m-1',
  '/stats?step=1h&group_by=model',
  '/stats?step=1d&q=user:u-2',
  '/facets?field=model',
  '/facets?field=span&q=chat',
  '/export?of=observations&payloads=true',
  '/export?of=traces&format=parquet',
];

function events(first: number, traces: number): object[] {
  return Array.from({ length: traces * CALLS }, (_, i) => {
    const trace = first + Math.floor(i / CALLS);
    const call = i % CALLS;
    return span(`o-${trace}-${call}`, {
      ...{ trace_id: `t-${trace}`, kind: 'generation', name: `chat ${call}`, model: `m-${i % 5}` },
      ...(call === 0 ? {} : { parent_id: `o-${trace}-0` }),
      ...{ inputs: `a question ${'x'.repeat(500)}`, outputs: 'an answer' },
      usage: { input_tokens: i, output_tokens: 7 },
      metadata: { user_id: `u-${trace % 20}`, session_id: `s-${trace % 50}` },
    });
  });
}

async function ingest(daemon: Daemon, key: string, batch: object[]): Promise<number> {
  const { status } = await send(daemon.base, {
    ...{ method: 'POST', path: '/api/v1/observations/batch', timeoutMs: 60_000 },
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ events: batch }),
  });
  return status;
}

/** The code and status of an answer, or that the client left it. */
function read(
  daemon: Daemon,
  agent: Agent,
  [key, target, leaveMs]: readonly [key: string, target: string, leaveMs: number | null],
): Promise<string> {
  return new Promise((resolve, reject) => {
    const { hostname, port } = new URL(daemon.base);
    let hasLeft = false;
    const outgoing = request(
      {
        ...{ hostname, port, agent, path: `/api/v1${target}` },
        headers: { authorization: `Bearer ${key}` },
      },
      (incoming) => {
        const chunks: Buffer[] = [];
        incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
        incoming.on('error', () => resolve(hasLeft ? 'left' : 'cut'));
        incoming.on('end', () => {
          const { statusCode: status } = incoming;
          if (status === 200) return resolve('200');
          const { code, message } = record(JSON.parse(String(Buffer.concat(chunks))));
          resolve(`${status} ${code}${status === 400 ? message : ''}`);
        });
      },
    );
    outgoing.on('error', (error) => (hasLeft ? resolve('left') : reject(error)));
    if (leaveMs !== null) {
      setTimeout(() => {
        hasLeft = true;
        outgoing.destroy();
      }, leaveMs);
    }
    outgoing.end();
  });
}

/** Reads until the end. Returns the number of outcomes. */
async function readUntil(
  daemon: Daemon,
  key: string,
  end: number,
  seed: number,
): Promise<Map<string, number>> {
  const draw = drawn(seed);
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const outcomes = new Map<string, number>();
  while (performance.now() < end) {
    const target = TARGETS[draw(TARGETS.length)] ?? '/traces';
    const outcome = await read(daemon, agent, [key, target, draw(5) === 0 ? draw(60) : null]);
    outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
    if (outcome.startsWith('4') || outcome.startsWith('5')) await pause(50);
  }
  agent.destroy();
  return outcomes;
}

async function writeUntil(daemon: Daemon, key: string, end: number): Promise<Set<number>> {
  const statuses = new Set<number>();
  for (let i = 0; performance.now() < end; i++) {
    statuses.add(await ingest(daemon, key, events(TRACES + i, 1)));
    await pause(100);
  }
  return statuses;
}

function added(all: readonly Map<string, number>[]): Record<string, number> {
  const sums: Record<string, number> = {};
  for (const [outcome, count] of all.flatMap((one) => [...one])) {
    sums[outcome] = (sums[outcome] ?? 0) + count;
  }
  return sums;
}

const EXPECTED = new Set(['200', 'left', '429 rate_limited', '503 unavailable']);

for (const [store, options] of [
  ['SQLite', async (): Promise<DaemonOptions & { url?: string }> => ({})],
  ['Postgres', async () => onPostgres(server)],
] as const) {
  t.test(`100 readers of four projects share ${store}, and leave nothing behind`, async (t) => {
    const { url, ...more } = await options();
    const daemon = await startDaemon(t, more);
    const keys = [daemon.key];
    for (const name of ['b', 'c', 'd']) keys.push(await victimKey(daemon, name));
    for (const key of keys) {
      for (let first = 0; first < TRACES; first += 100) {
        t.equal(await ingest(daemon, key, events(first, 100)), 202);
      }
    }
    for (const key of keys) {
      await eventually(
        () =>
          send(daemon.base, {
            path: '/api/v1/traces?limit=1000',
            headers: { authorization: `Bearer ${key}` },
          }),
        ({ body }) => list(record(JSON.parse(String(body))).traces).length === TRACES,
        'the traces of a project',
        60_000,
      );
    }
    const end = performance.now() + READING_MS;
    let rss = 0;
    const [byProject, statuses] = await Promise.all([
      Promise.all(
        keys.map((key, project) =>
          Promise.all(
            Array.from({ length: READERS_A_PROJECT }, (_, i) =>
              readUntil(daemon, key, end, 100 * project + i),
            ),
          ).then(added),
        ),
      ),
      Promise.all(keys.map((key) => writeUntil(daemon, key, end))),
      (async () => {
        for (; performance.now() < end; await pause(200)) rss = Math.max(rss, daemon.rss());
      })(),
    ]);
    t.comment(JSON.stringify({ byProject, rss: Math.round(rss / MIB) }));
    for (const written of statuses) t.same([...written], [202]);
    t.same(
      byProject.flatMap(Object.keys).filter((outcome) => !EXPECTED.has(outcome)),
      [],
    );
    const answered = byProject.map((outcomes) => outcomes['200'] ?? 0);
    t.ok(2 * Math.min(...answered) >= Math.max(...answered), `fair shares: ${answered}`);
    t.ok(rss < 1_024 * MIB, `${rss} bytes of memory`);
    await eventually(
      () => daemon.metrics(),
      (samples) =>
        ['bytes', 'turns', 'exports', 'waits'].every(
          (name) => total(samples, `tracectl_read_${name}`) === 0,
        ),
      'the end of all reads',
    );
    if (url === undefined) return;
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    t.teardown(() => client.end());
    await eventually(
      () =>
        client.query(`SELECT query FROM pg_stat_activity WHERE datname = current_database()
          AND pid <> pg_backend_pid() AND (state LIKE 'idle in%' OR state = 'active')
          AND state_change < now() - interval '2 s'`),
      ({ rows }) => rows.length === 0,
      'the end of all statements',
    );
  });
}
