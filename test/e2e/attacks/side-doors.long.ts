import type { Socket } from 'node:net';
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
