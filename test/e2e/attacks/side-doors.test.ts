import { once } from 'node:events';
import { connect } from 'node:net';
import t from 'tap';
import { send } from '../client.ts';
import { startDaemon } from '../daemon.ts';
import { silence } from './attacks.ts';

/** Slow and silent connections to the health, metrics and admin ports. */

t.setTimeout(120_000);

/** Sends a head that never ends; the milliseconds until the connection is cut. */
async function timeOfSlowHead(base: string): Promise<number> {
  const { hostname, port } = new URL(base);
  const socket = connect(Number(port), hostname).on('error', () => {});
  const closed = once(socket, 'close');
  await once(socket, 'connect');
  const started = performance.now();
  socket.write('GET / HTTP/1.1\r\n');
  // Bytes that arrive now and then do not extend the time.
  const drip = setInterval(() => socket.write('X-Slow: 1\r\n'), 200);
  socket.resume();
  await closed;
  clearInterval(drip);
  return performance.now() - started;
}

t.test('slow heads and silent connections are cut, and probes are answered', async (t) => {
  const daemon = await startDaemon(t);
  const bases = [daemon.health, daemon.metricsBase, daemon.adminBase];
  const times = await Promise.all(bases.map(timeOfSlowHead));
  for (const time of times) {
    t.ok(time >= 1_900, `not before its time: ${time} ms`);
    t.ok(time < 10_000, `long before the 30 s that a whole request has: ${time} ms`);
  }
  const silent = bases.flatMap(silence);
  const closed = Promise.all(silent.map((socket) => once(socket.resume(), 'close')));
  t.equal((await send(daemon.health, { path: '/readyz' })).status, 200);
  t.equal((await send(daemon.metricsBase, { path: '/metrics' })).status, 200);
  t.equal((await send(daemon.adminBase, { path: '/api/v1/openapi.json' })).status, 200);
  await closed;
  t.pass('each connection was closed by the daemon');
});
