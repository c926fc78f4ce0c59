import { once } from 'node:events';
import type { Socket } from 'node:net';
import { connect } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import t, { type Test } from 'tap';
import type { Answer } from '../client.ts';
import { eventually, json, list, record, send } from '../client.ts';
import type { Daemon } from '../daemon.ts';
import { startDaemon } from '../daemon.ts';
import { LISTING, pipeliner } from './attacks.ts';
import type { Victim } from './victim.ts';
import { beside, holdSlowdown, victimKey, victimOf } from './victim.ts';

/** Reading requests of one project, beside the ingestion of another one. */

t.setTimeout(600_000);

const MIB = 1_048_576;

async function attacked(t: Parameters<typeof startDaemon>[0]) {
  const daemon = await startDaemon(t);
  const victim = victimOf(daemon, await victimKey(daemon), 20);
  t.teardown(victim.close);
  return { daemon, victim };
}

async function postEvents(daemon: Daemon, events: readonly object[]): Promise<Answer> {
  return daemon.call({
    method: 'POST',
    path: '/api/v1/observations/batch',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ events }),
    timeoutMs: 60_000,
  });
}

function span(id: string, more: object = {}): object {
  return { id, trace_id: id, operation: 'finish', kind: 'span', status: 'ok', ...more };
}

/** Traces of the attacker, so that its listings have something to answer. */
async function fill(daemon: Daemon, traces: number): Promise<void> {
  const events = Array.from({ length: traces }, (_, i) => span(`attacker-${i}`, { name: 'trace' }));
  await postEvents(daemon, events);
  await listed(daemon, traces);
}

async function listed(daemon: Daemon, traces: number): Promise<readonly unknown[]> {
  const ask = () => daemon.call({ path: '/api/v1/traces?limit=1000', timeoutMs: 60_000 });
  const found = ({ body }: Answer) => list(record(JSON.parse(String(body))).traces);
  const answer = await eventually(
    ask,
    (answered) => found(answered).length >= traces,
    'traces',
    120_000,
  );
  return found(answer);
}

t.test('names of 25 MiB are accepted, and listings of them stay small', async (t) => {
  const { daemon, victim } = await attacked(t);
  const name = 'n'.repeat(25 * MIB - 1_000);
  let traces: readonly unknown[] = [];
  let rss = 0;
  const report = await victim.during(async () => {
    for (let i = 0; i < 40; i++) {
      const answer = await postEvents(daemon, [span(`wide-${i}`, { name })]);
      t.ok([202, 503].includes(answer.status), 'accepted, or refused for want of memory');
      if (answer.status === 503) {
        i--;
        await pause(200);
      }
    }
    traces = await listed(daemon, 40);
    for (let i = 0; i < 20; i++) {
      const answer = await daemon.call({ path: LISTING });
      t.equal(answer.status, 200);
      t.ok(answer.body.length < MIB);
      rss = Math.max(rss, daemon.rss());
    }
  });
  t.equal(traces.length, 40);
  t.ok(rss < 1_024 * MIB, 'a listing of cut names does not load the names');
  t.equal(String(record(traces[0]).name).at(-1), '…');
  const raw = await daemon.call({ path: '/api/v1/traces/wide-1', timeoutMs: 60_000 });
  t.equal(raw.status, 200);
  t.ok(String(record(list(record(json(raw)).observations)[0]).name).length <= 2048);
  t.same(Object.keys(report.statuses), ['202']);
});

async function unharmed(
  t: Test,
  victim: Victim,
  attack: () => Promise<unknown>,
  what: string,
): Promise<void> {
  const { statuses, slowdown } = await beside(victim, attack);
  t.same(statuses, ['202'], `ingestion goes on beside ${what}`);
  holdSlowdown(t, slowdown, 'reads');
}

t.test('pipelined listings do not refuse the ingestion of another project', async (t) => {
  const { daemon, victim } = await attacked(t);
  await fill(daemon, 100);
  for (const reads of [true, false]) {
    for (const connections of [1, 3, 20]) {
      const clients = Array.from({ length: connections }, () => pipeliner(daemon, reads));
      const what = `${connections} connections that ${reads ? 'read' : 'do not read'}`;
      await unharmed(t, victim, () => pause(4_000), what);
      for (const client of clients) client.close();
    }
  }
  const own = await eventually(
    () => daemon.call({ path: LISTING }),
    ({ status }) => status === 200,
    'a listing of the same key',
  );
  t.equal(list(record(json(own)).traces).length, 50);
});

t.test('clients that pipeline a few listings get every answer, in order', async (t) => {
  const { daemon } = await attacked(t);
  await fill(daemon, 10);
  const { hostname, port } = new URL(daemon.base);
  const socket = connect(Number(port), hostname);
  let text = '';
  socket.on('data', (chunk) => (text += chunk));
  const head = `Host: t\r\nAuthorization: Bearer ${daemon.key}\r\n\r\n`;
  const requests = Array.from(
    { length: 60 },
    (_, i) => `GET /api/v1/traces?limit=${1 + (i % 9)} HTTP/1.1\r\n${head}`,
  );
  socket.write(requests.join(''));
  socket.write(`GET /api/v1/me HTTP/1.1\r\nConnection: close\r\n${head}`);
  await once(socket, 'close');
  t.equal(text.split('HTTP/1.1 200 OK').length - 1, 61);
  const counts = [...text.matchAll(/"traces":\[(.*?)\],"next_cursor"/g)].map(
    ([, items = '']) => items.split('"observation_count"').length - 1,
  );
  t.same(
    counts,
    requests.map((_, i) => 1 + (i % 9)),
  );
});

t.test('1,700 connections with a listing each do not refuse another project', async (t) => {
  const { daemon, victim } = await attacked(t);
  await fill(daemon, 100);
  const { hostname, port } = new URL(daemon.base);
  const request = `GET ${LISTING} HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer ${daemon.key}\r\n\r\n`;
  const statuses = new Set<string>();
  const sockets: Socket[] = [];
  await unharmed(
    t,
    victim,
    async () => {
      for (let i = 0; i < 1_700; i++) {
        const socket = connect(Number(port), hostname);
        sockets.push(socket);
        socket.on('error', () => undefined);
        socket.on('data', (chunk) => statuses.add(String(chunk).slice(9, 12)));
        socket.write(request);
      }
      await pause(4_000);
    },
    '1,700 connections',
  );
  for (const socket of sockets) socket.destroy();
  t.ok(statuses.has('200'), 'listings are answered');
  const other = await send(daemon.base, {
    path: LISTING,
    headers: { authorization: `Bearer ${daemon.key}` },
  });
  t.equal(other.status, 200);
});
