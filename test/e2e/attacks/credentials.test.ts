import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { makeToken } from '../../../src/tenancy/token.ts';
import type { Answer } from '../client.ts';
import { send } from '../client.ts';
import type { Daemon } from '../daemon.ts';
import { startDaemon } from '../daemon.ts';
import { beside, holdSlowdown, victimKey, victimOf } from './victim.ts';

/** Wrong credentials, beside a well-behaved client at the same address. */

t.setTimeout(300_000);

/** Together more than an address may fail at once. */
const WAVES = 15;
const REQUESTS_PER_WAVE = 20;

async function flood(ask: () => Promise<Answer>): Promise<Record<number, number>> {
  const statuses: Record<number, number> = {};
  for (let wave = 0; wave < WAVES; wave++) {
    const answers = await Promise.all(Array.from({ length: REQUESTS_PER_WAVE }, ask));
    for (const { status } of answers) statuses[status] = (statuses[status] ?? 0) + 1;
  }
  return statuses;
}

function adminToken(daemon: Daemon): Promise<string> {
  return readFile(join(daemon.directory, 'data', 'admin-token'), 'utf8').then((text) =>
    text.trim(),
  );
}

t.test('wrong keys from an address do not refuse a valid key from it', async (t) => {
  const daemon = await startDaemon(t);
  const victim = victimOf(daemon, await victimKey(daemon), 20);
  t.teardown(victim.close);
  for (const path of ['/api/v1/observations/batch', '/api/v1/traces']) {
    let attacked: Record<number, number> = {};
    const { statuses, slowdown } = await beside(victim, async () => {
      attacked = await flood(() =>
        send(daemon.base, {
          method: path.endsWith('batch') ? 'POST' : 'GET',
          path,
          headers: { authorization: `Bearer ${makeToken()}` },
        }),
      );
    });
    t.ok((attacked[429] ?? 0) > 0, `the wrong keys are throttled at ${path}`);
    t.same(statuses, ['202'], `every request of the valid key is accepted`);
    holdSlowdown(t, slowdown, 'wrong keys');
  }
});

t.test('wrong admin tokens from an address do not refuse the right token', async (t) => {
  const daemon = await startDaemon(t);
  const path = '/api/v1/projects';
  const ask = (token: string) =>
    send(daemon.adminBase, { path, headers: { authorization: `Bearer ${token}` } });
  const right = await adminToken(daemon);
  const attacked = await flood(() => ask('wrong'));
  t.equal(attacked[401], 10);
  t.equal(attacked[429], WAVES * REQUESTS_PER_WAVE - 10);
  t.equal((await ask(right)).status, 200);
});

t.test('a client behind a trusted proxy does not throttle another one behind it', async (t) => {
  const trusted_proxies = ['127.0.0.1'];
  const listener = { trusted_proxies };
  const daemon = await startDaemon(t, {
    config: {
      receivers: { native: listener, runs: listener, otlp: { protocols: { http: listener } } },
      processors: { quotas: { edge: { failed_authentications: { per_minute: 0.1, burst: 2 } } } },
    },
  });
  const ask = async (client: string): Promise<number> => {
    const headers = { 'x-api-key': makeToken(), 'x-forwarded-for': client };
    return (await send(daemon.base, { path: '/api/v1/traces', headers })).status;
  };
  const statuses: number[] = [];
  for (const client of ['1', '1', '1', '2']) statuses.push(await ask(`198.51.100.${client}`));
  t.same(statuses, [401, 401, 429, 401]);
});
