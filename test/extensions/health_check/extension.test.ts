import type { Test } from 'tap';
import t from 'tap';
import { config as healthCheckConfig } from '../../../extensions/health_check/config.ts';
import { createExtension as createHealthCheck } from '../../../extensions/health_check/extension.ts';
import { offer } from '../../../src/component/capability.ts';
import type { HealthReport } from '../../../src/component/health.ts';
import { HEALTH } from '../../../src/component/health.ts';
import { NO_DEADLINE } from '../../helper/http.ts';
import { fakeHost, testSettings } from '../../helper/settings.ts';
import { dial } from '../../helper/wire.ts';

async function serving(t: Test, config: object = {}) {
  const state = { ready: true, status: 'running' as HealthReport['status'] };
  const health = {
    report: (verbose: boolean): HealthReport => ({
      ...state,
      upSince: Date.UTC(2026, 0, 15),
      uptime: 61_500,
      components: verbose ? [{ id: 'disk_queue', details: { backlog: 3 } }] : [],
    }),
  };
  const settings = testSettings('extension', 'health_check', {
    host: fakeHost({ services: [offer(HEALTH, health)] }),
  });
  const extension = createHealthCheck(
    settings,
    healthCheckConfig.parse({ endpoint: '127.0.0.1:0', ...config }),
  );
  await extension.start();
  t.teardown(() => extension.shutdown(NO_DEADLINE));
  const url = `http://${String(settings.logger.lines[0]?.fields.address)}`;
  return { extension, url, state };
}

t.test("readyz follows the service's readiness, livez does not", async (t) => {
  const { url, state } = await serving(t);
  for (const path of ['/', '/readyz']) {
    const answered = await fetch(url + path);
    t.equal(answered.status, 200, path);
    t.match(await answered.json(), {
      status: 'ready',
      up_since: '2026-01-15T00:00:00.000Z',
      uptime_seconds: 61,
    });
  }
  state.ready = false;
  state.status = 'stopping';
  for (const path of ['/', '/readyz']) {
    const answered = await fetch(url + path);
    t.equal(answered.status, 503, path);
    t.match(await answered.json(), { status: 'stopping' });
  }
  t.equal((await fetch(`${url}/livez`)).status, 200);
});

t.test('logs an address of IPv6 as a URL has it', async (t) => {
  const { url } = await serving(t, { endpoint: '[::1]:0' });
  t.match(url, /^http:\/\/\[::1\]:\d+$/);
  t.equal((await fetch(`${url}/livez`)).status, 200);
});

t.test('a verbose report lists every component', async (t) => {
  const { url } = await serving(t);
  t.match(await (await fetch(`${url}/readyz?verbose`)).json(), {
    ready: true,
    phase: 'running',
    components: [{ id: 'disk_queue', details: { backlog: 3 } }],
  });
});

t.test('serves a configured path, and answers 404 to an unknown one', async (t) => {
  const { url } = await serving(t, { path: '/health' });
  t.equal((await fetch(`${url}/health`)).status, 200);
  t.equal((await fetch(url)).status, 404);
  const posted = await fetch(`${url}/health`, { method: 'POST' });
  t.equal(posted.status, 405);
  t.equal(posted.headers.get('allow'), 'GET, HEAD');
  t.equal((await fetch(`${url}/health`, { method: 'HEAD' })).status, 200);
});

t.test('refuses two Host headers', async (t) => {
  const { url } = await serving(t);
  const wire = await dial(url);
  wire.send('GET /livez HTTP/1.1\r\nHost: a.test\r\nHost: b.test\r\n\r\n');
  t.equal((await wire.answer()).status, 400);
});

t.test('survives malformed targets, and stops without waiting for idle connections', async (t) => {
  const { url, extension } = await serving(t);
  const wire = await dial(url);
  wire.send('GET http://[ HTTP/1.1\r\nHost: t\r\n\r\n');
  t.equal((await wire.answer()).status, 400);
  t.equal((await fetch(`${url}/livez`)).status, 200);
  await extension.shutdown(NO_DEADLINE);
  await wire.ended();
  await t.rejects(dial(url), { code: 'ECONNREFUSED' });
});

t.test('rejects the start if the address is in use', async (t) => {
  const { url } = await serving(t);
  await t.rejects(serving(t, { endpoint: new URL(url).host }), /cannot listen on/);
});
