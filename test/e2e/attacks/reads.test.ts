import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import t from 'tap';
import { pipeliner } from './attacks.ts';
import { attacked, fill, unharmed } from './listings.ts';

/** Reading requests of one project, beside the ingestion of another one; more cases are in `reads.long.ts`. */

t.setTimeout(120_000);

t.test('pipelined listings that are not read do not refuse another project', async (t) => {
  const { daemon, victim } = await attacked(t);
  await fill(daemon, 100);
  const clients = Array.from({ length: 3 }, () => pipeliner(daemon, false));
  await unharmed(t, victim, () => pause(1_000), '3 connections');
  for (const client of clients) client.close();
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
