import type { Socket } from 'node:net';
import { connect } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import t from 'tap';
import { eventually, json, list, record, send } from '../client.ts';
import { LISTING, pipeliner } from './attacks.ts';
import { attacked, fill, listed, postEvents, span, unharmed } from './listings.ts';

/** Reading requests of one project, beside the ingestion of another one. */

t.setTimeout(600_000);

const MIB = 1_048_576;

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
