import { connect, type Socket } from 'node:net';
import t from 'tap';
import { send } from '../client.ts';
import { startDaemon } from '../daemon.ts';
import { victimKey, victimOf } from './victim.ts';

/** Silent connections to the health, metrics and admin ports, beside probes and a well-behaved client. */

t.setTimeout(300_000);

const SILENT = 400;
const PROBES = 10;

function silence(base: string): Socket[] {
  const { hostname, port } = new URL(base);
  return Array.from({ length: SILENT }, () =>
    connect(Number(port), hostname).on('error', () => {}),
  );
}

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
      const silent = silence(base);
      const statuses: number[] = [];
      const report = await victim.during(async () => {
        for (let probe = 0; probe < PROBES; probe++) {
          statuses.push((await send(base, { path })).status);
        }
      });
      t.same(new Set(statuses), new Set([200]), `every probe of ${path} is answered`);
      t.same(Object.keys(report.statuses), ['202'], 'ingestion goes on');
      for (const socket of silent) socket.destroy();
    }
  },
);
