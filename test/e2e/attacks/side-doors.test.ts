import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import t from 'tap';
import { send } from '../client.ts';
import { startDaemon } from '../daemon.ts';
import { silence } from './attacks.ts';
import { beside, holdSlowdown, victimKey, victimOf } from './victim.ts';

/** Silent connections to the health, metrics and admin ports, beside probes and a well-behaved client. */

t.setTimeout(300_000);

const PROBES = 10;

t.test(
  'silent connections do not keep probes out of the health, metrics and admin ports',
  async (t) => {
    const daemon = await startDaemon(t);
    const victim = victimOf(daemon, await victimKey(daemon), 20);
    t.teardown(victim.close);
    for (const [base, path] of [
      [daemon.health, '/readyz'],
      [daemon.metricsBase, '/metrics'],
      [daemon.adminBase, '/api/v1/openapi.json'],
    ] as const) {
      const silent: Socket[] = [];
      const probed = new Set<number>();
      const { statuses, slowdown } = await beside(victim, async () => {
        silent.push(...silence(base));
        for (let probe = 0; probe < PROBES; probe++) {
          probed.add((await send(base, { path })).status);
        }
        await pause(1_000);
      });
      t.same(probed, new Set([200]), `every probe of ${path} is answered`);
      t.same(statuses, ['202'], 'ingestion goes on');
      holdSlowdown(t, slowdown, 'silent connections');
      for (const socket of silent) socket.destroy();
    }
  },
);

t.test(
  'a head that takes longer than 2 s is cut on the health, metrics and admin ports',
  async (t) => {
    const daemon = await startDaemon(t);
    const cut = async (base: string): Promise<number> => {
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
    };
    const times = await Promise.all([daemon.health, daemon.metricsBase, daemon.adminBase].map(cut));
    for (const time of times) {
      t.ok(time >= 1_900, `not before its time: ${time} ms`);
      t.ok(time < 10_000, `long before the 30 s that a whole request has: ${time} ms`);
    }
  },
);

t.test('a silent connection is cut on the health, metrics and admin ports', async (t) => {
  const daemon = await startDaemon(t);
  const bases = [daemon.health, daemon.metricsBase, daemon.adminBase];
  await Promise.all(
    bases.map(async (base) => {
      const { hostname, port } = new URL(base);
      const socket = connect(Number(port), hostname).on('error', () => {});
      const closed = once(socket, 'close');
      socket.resume();
      await closed;
    }),
  );
  t.pass('each one was closed by the daemon');
});
