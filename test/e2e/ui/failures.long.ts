import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Request } from 'playwright-core';
import t from 'tap';
import { until } from '../../helper/until.ts';
import { startUi } from './rig.ts';

t.setTimeout(600_000);

/** A daemon that is away, requests that fail late, and objects that go while a page shows them. */

const ui = await startUi(t);
const { page } = ui;
for (const status of [401, 404, 503]) ui.provoked.add(status);

type Project = { readonly id: string };

const heading = (name: string) => page.getByRole('heading', { level: 1, name, exact: true });
const alert = (text: string) => page.getByRole('alert').filter({ hasText: text });
const dialog = page.getByRole('dialog');

/** The page goes to the background, or comes back. */
const HIDE = (state: string): string => `
  Object.defineProperty(document, 'visibilityState', { configurable: true, value: '${state}' });
  document.dispatchEvent(new Event('visibilitychange'));`;

t.test('a page whose code cannot load keeps the address until the daemon answers', async (t) => {
  await ui.open('/traces');
  await ui.daemon.end('SIGKILL');
  await page.getByRole('link', { name: 'Users' }).click();
  await alert('The page could not be loaded.').waitFor();
  await page.getByRole('button', { name: 'Retry' }).click();
  await alert('The daemon does not answer.').waitFor();
  await ui.daemon.start();
  await page.getByRole('button', { name: 'Retry' }).click();
  await heading('Users').waitFor();
  t.match(page.url(), /\/users$/);
});

t.test('a page whose scripts are on their way says that it loads', async (t) => {
  // Those of the test whose daemon was away.
  ui.errors.length = 0;
  let answer = (): void => {};
  const arrived = new Promise<void>((resolve) => {
    answer = resolve;
  });
  await page.route('**/assets/*.js', async (route) => {
    await arrived;
    await route.continue();
  });
  await page.goto(`${ui.daemon.adminBase}/users`, { waitUntil: 'commit' });
  const loading = page.getByRole('status').filter({ hasText: 'Loading' });
  await loading.waitFor();
  answer();
  await heading('Users').waitFor();
  await loading.waitFor({ state: 'detached' });
  const parts = page.locator('#app > *');
  t.same(await parts.evaluateAll((all) => all.map(({ className }) => className)), [
    'frame',
    'toasts',
  ]);
  await ui.check(t, 'a page that was slow to load');
});

t.test('a page whose scripts do not come can be loaded again', async (t) => {
  await page.route('**/assets/*.js', (route) => route.abort());
  await page.goto(`${ui.daemon.adminBase}/settings/keys?range=all`);
  const again = page.getByRole('link', { name: 'Load again' });
  t.equal(await again.count(), 0, 'not at once');
  await again.waitFor();
  await page.unrouteAll();
  await again.click();
  await heading('API keys').waitFor();
  t.match(page.url(), /\/settings\/keys\?range=all/);
  ui.errors.length = 0;
});

t.test('says that a change failed whose dialog was closed before', async (t) => {
  await ui.open('/settings/keys');
  let answer = (): void => {};
  const closed = new Promise<void>((resolve) => {
    answer = resolve;
  });
  await page.route('**/api/v1/keys/*', async (route) => {
    await closed;
    await route.fulfill({ status: 503, json: { code: 'unavailable', message: 'Not now.' } });
  });
  await page.getByRole('button', { name: 'Revoke' }).first().click();
  await dialog.getByRole('button', { name: 'Revoke' }).click();
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'detached' });
  answer();
  await alert('Not now.').waitFor();
  await page.unrouteAll();
  t.pass('the failure shows beside the page');
});

t.test('says that the keys of a project to delete are not counted', async (t) => {
  await ui.admin('POST', '/projects', { name: 'to delete' });
  await ui.open('/settings/projects');
  await page.route('**/api/v1/projects/*/keys', (route) =>
    route.fulfill({ status: 503, json: { code: 'unavailable', message: 'Not now.' } }),
  );
  const row = page.getByRole('row').filter({ hasText: 'to delete' });
  await row.getByRole('button', { name: 'Delete' }).click();
  await dialog.getByText('Not now.').waitFor();
  await page.unrouteAll();
  await dialog.getByRole('button', { name: 'Retry' }).click();
  await dialog.getByText('0 API keys').waitFor();
  t.equal(await dialog.getByRole('alert').count(), 0);
  await page.keyboard.press('Escape');
});

t.test('says that the first page cannot see what was refused', async (t) => {
  ui.provoked.add(403);
  await page.route(/\/rejections\b/, (route) =>
    route.fulfill({ status: 403, json: { code: 'forbidden', message: 'Not for you.' } }),
  );
  await ui.open('/start');
  await alert('Not for you.').waitFor();
  await page.unrouteAll();
  await alert('Not for you.').getByRole('button', { name: 'Retry' }).click();
  await alert('Not for you.').waitFor({ state: 'detached' });
  t.pass('the answer is there after a retry');
});

t.test('says no health of components while the daemon does not answer', async (t) => {
  const healthy = page.getByText('Every component is healthy.');
  await ui.open('/pipelines');
  await healthy.waitFor();
  await page.route('**/api/v1/pipelines', (route) =>
    route.fulfill({ status: 503, json: { code: 'unavailable', message: 'Not now.' } }),
  );
  await alert('Not now.').waitFor();
  t.equal(await healthy.count(), 0);
  await page.unrouteAll();
  await healthy.waitFor();
});

t.test('says that the project of a page was deleted', async (t) => {
  const { id } = await ui.admin<Project>('POST', '/projects', { name: 'short-lived' });
  await ui.open(`/settings/keys?project=${id}`);
  await heading('API keys').waitFor();
  await ui.admin('DELETE', `/projects/${id}`);
  await heading('There is no such project').waitFor();
  await page.getByRole('button', { name: 'Open default' }).click();
  await heading('API keys').waitFor();
  await page.waitForURL((url) => !url.href.includes(id));
  t.pass('the address has another project');
});

t.test('the range of another year has its year', async (t) => {
  await ui.open('/traces?from=2020-01-01T12:00:00Z&to=2020-02-01T12:00:00Z');
  await page.getByRole('button', { name: /^Range.*2020.*2020/ }).waitFor();
  t.pass('both ends name it');
});

t.test(
  'says once that a range ends before it begins, and asks the daemon for nothing',
  async (t) => {
    // Those of the tests whose daemon was away.
    ui.errors.length = 0;
    const asked: string[] = [];
    const note = (request: Request): void => {
      const url = request.url();
      if (/\/api\/.*\/(traces|stats|facets|sessions)\?/.test(url)) asked.push(url);
    };
    page.on('request', note);
    for (const path of ['/traces', '/dashboard', '/sessions']) {
      for (const to of ['&to=2026-11-01T00:00:00Z', '&to=2026-11-02T00:00:00Z']) {
        await ui.open(`${path}?from=2026-11-02T00:00:00Z${to}`);
        await page.getByRole('heading', { name: 'The range ends before it begins' }).waitFor();
        t.equal(await page.getByRole('alert').count(), 1, path + to);
      }
    }
    await ui.check(t, 'a reversed range');
    t.strictSame(asked, []);
    page.off('request', note);
    await page.getByRole('button', { name: 'Search all time' }).click();
    await page.getByRole('heading', { name: 'No sessions in this range' }).waitFor();
    await page.waitForURL(/range=all/);
  },
);

t.test('asks no more for a live list that the daemon refused for good', async (t) => {
  ui.provoked.add(400).add(403);
  const asked: string[] = [];
  const refusal = { code: 'forbidden', message: 'Not for this session.' };
  const ofProject = /\/api\/v1\/projects\/[^/?]+/;
  // With 400, the daemon still answers about the project of the page.
  const refusals = [
    { of: ofProject, status: 403 },
    { of: /\/(traces|stats|facets)\b.*\?/, status: 400 },
  ];
  for (const { of, status } of refusals) {
    asked.length = 0;
    await page.route(ofProject, async (route) => {
      asked.push(new URL(route.request().url()).pathname);
      if (of.test(route.request().url())) await route.fulfill({ status, json: refusal });
      else await route.continue();
    });
    await page.clock.install();
    await ui.open('/traces?live=1');
    await alert('Not for this session.').waitFor();
    // An answer about the project that is on its way may be the last one.
    await page.clock.runFor(10_000);
    await page.evaluate("fetch('/api/v1/projects/last')");
    asked.length = 0;
    await page.clock.runFor(120_000);
    // The requests of the page come before this one.
    await page.evaluate("fetch('/api/v1/projects/last')");
    t.strictSame(asked, ['/api/v1/projects/last'], String(status));
    await page.unrouteAll();
    const stream = page.waitForRequest(/\/traces\/stream\?/);
    await page.getByRole('button', { name: 'Retry' }).click();
    await alert('Not for this session.').waitFor({ state: 'detached' });
    await stream;
    await page.getByText('The stream is interrupted').waitFor({ state: 'detached' });
    await page.clock.resume();
  }
});

t.test(
  'a live list whose stream is refused for good says why, and follows again after a retry',
  async (t) => {
    ui.provoked.add(403);
    const refusal = { code: 'forbidden', message: 'Not for this session.' };
    await ui.open('/traces?live=1');
    await page.getByRole('figure', { name: 'Traces over time' }).waitFor();
    await page.route(/\/api\/v1\/projects\//, (route) =>
      route.fulfill({ status: 403, json: refusal }),
    );
    // The stream of a page in the background is closed, and opened again later.
    await page.evaluate(HIDE('hidden'));
    await page.evaluate(HIDE('visible'));
    await alert('Not for this session.').waitFor();
    await page.unrouteAll();
    const stream = page.waitForRequest(/\/traces\/stream\?/);
    await page.getByRole('button', { name: 'Retry' }).click();
    await stream;
    await alert('Not for this session.').waitFor({ state: 'detached' });
    await page.getByText('The stream is interrupted').waitFor({ state: 'detached' });
    t.pass('the stream is open');
  },
);

t.test('asks less often for the first trace while the daemon refuses the stream', async (t) => {
  ui.provoked.add(403);
  const refusal = { code: 'forbidden', message: 'Not for this session.' };
  const ofStream = /\/traces\/stream\b/;
  let asked = 0;
  // A running clock adds the seconds that a busy machine takes for a step.
  const start = Date.now();
  await page.clock.install({ time: start });
  await page.clock.pauseAt(start + 60_000);
  await page.route(ofStream, async (route) => {
    asked += 1;
    await route.fulfill({ status: 403, json: refusal });
  });
  const refused = (): Promise<unknown> => page.waitForResponse(/\/api\/v1\/projects\/[^/]+$/);
  const first = refused();
  const opened = ui.open('/start');
  await until(async () => {
    await page.clock.runFor(10);
    return asked > 0;
  });
  await Promise.all([opened, first]);
  for (const seconds of [3, 6, 12, 24, 48, 60, 60]) {
    // The timer begins when the page has read the answer.
    await page.evaluate("fetch('/api/v1/projects/last')");
    const before = asked;
    await page.clock.runFor((seconds - 1) * 1_000);
    await page.evaluate("fetch('/api/v1/projects/last')");
    t.equal(asked, before, `not within ${seconds - 1} s`);
    const next = refused();
    await page.clock.runFor(1_000);
    await next;
  }
  await page.unroute(ofStream);
  await page.evaluate("fetch('/api/v1/projects/last')");
  const stream = page.waitForResponse((response) => response.url().match(ofStream) !== null);
  await page.clock.runFor(60_000);
  t.equal((await stream).status(), 200);
  await page.clock.resume();
});

t.test('a page waits as long as a refusal asks before it reads again', async (t) => {
  ui.provoked.add(429);
  const ofKeys = /\/projects\/[^/]+\/keys$/;
  let asked = 0;
  await page.clock.install();
  await page.route(ofKeys, (route) => {
    asked += 1;
    return route.fulfill({
      ...{ status: 429, headers: { 'retry-after': '120' } },
      json: { code: 'rate_limited', message: 'Too many requests.' },
    });
  });
  await ui.open('/settings/keys');
  await alert('Too many requests.').waitFor();
  const wait = alert('Too many requests.').getByRole('timer');
  await wait.filter({ hasText: /^The page tries again in (2 min|1 min \d+ s)\.$/ }).waitFor();
  await page.evaluate("fetch('/api/v1/projects/last')");
  await page.clock.runFor(110_000);
  await page.evaluate("fetch('/api/v1/projects/last')");
  t.equal(asked, 1);
  await wait.filter({ hasText: /^The page tries again in \d+ s\.$/ }).waitFor();
  await page.unrouteAll();
  await page.clock.runFor(20_000);
  await page.getByRole('table', { name: 'API keys' }).waitFor();
  await page.clock.resume();
});

t.test('a page that does not read again says how long to wait', async (t) => {
  ui.provoked.add(429);
  const wait = alert('Too many requests.').getByRole('timer');
  const refuse = () =>
    page.route(/\/api\/.*\/(users|traces)\?/, (route) =>
      route.fulfill({
        ...{ status: 429, headers: { 'retry-after': '90' } },
        json: { code: 'rate_limited', message: 'Too many requests.' },
      }),
    );
  await page.clock.install();
  for (const path of ['/users', '/traces']) {
    await refuse();
    await ui.open(path);
    await wait.filter({ hasText: /^Wait 1 min \d+ s before you try again\.$/ }).waitFor();
    await ui.check(t, `a wait on ${path}`);
    await page.clock.runFor(60_000);
    await wait.filter({ hasText: /^Wait \d+ s before you try again\.$/ }).waitFor();
    await page.clock.runFor(31_000);
    await wait.filter({ hasText: /^You may try again\.$/ }).waitFor();
    await page.unrouteAll();
    await page.getByRole('button', { name: 'Retry' }).click();
    await wait.waitFor({ state: 'detached' });
  }
  await refuse();
  await ui.open('/traces?live=1');
  await wait.filter({ hasText: /^The page tries again in 1 min \d+ s\.$/ }).waitFor();
  await page.unrouteAll();
  await page.clock.runFor(91_000);
  await wait.waitFor({ state: 'detached' });
  await page.clock.resume();
});

t.test('a live list reads nothing before the wait that a refusal asks for is over', async (t) => {
  ui.provoked.add(429);
  const show = (state: string) =>
    page.evaluate(`Object.defineProperty(document, 'visibilityState', { value: '${state}', configurable: true });
      document.dispatchEvent(new Event('visibilitychange'))`);
  const isStream = (each: { url(): string }) => each.url().includes('/traces/stream');
  let asked = 0;
  await page.clock.install();
  await page.route(/\/projects\/[^/]+\/traces\?/, (route) => {
    asked += 1;
    return route.fulfill({
      ...{ status: 429, headers: { 'retry-after': '90' } },
      json: { code: 'rate_limited', message: 'Too many requests.' },
    });
  });
  const opened = page.waitForResponse(isStream);
  await ui.open('/traces?live=1');
  await opened;
  await alert('Too many requests.').waitFor();
  // The stream may open before the first answer is there.
  await page.evaluate("fetch('/api/v1/service')");
  const before = asked;
  await page.clock.runFor(30_000);
  await show('hidden');
  const again = page.waitForResponse(isStream);
  await show('visible');
  await again;
  await page.clock.runFor(30_000);
  await page.evaluate("fetch('/api/v1/service')");
  t.equal(asked, before);
  await page.unrouteAll();
  await page.clock.runFor(31_000);
  await alert('Too many requests.').waitFor({ state: 'detached' });
  await page.clock.resume();
});

t.test('a change that is refused for a while says how long to wait', async (t) => {
  ui.provoked.add(429);
  await ui.open('/settings/keys');
  await page.route('**/api/v1/keys/*', (route) =>
    route.fulfill({
      ...{ status: 429, headers: { 'retry-after': '90' } },
      json: { code: 'rate_limited', message: 'Too many requests.' },
    }),
  );
  await page.getByRole('button', { name: 'Revoke' }).first().click();
  await dialog.getByRole('button', { name: 'Revoke' }).click();
  await dialog
    .getByRole('timer')
    .filter({ hasText: /^Wait 1 min \d+ s before/ })
    .waitFor();
  await page.unrouteAll();
  await page.keyboard.press('Escape');
  t.pass('in the dialog');
});

t.test('a trace that does not come has a heading, which has the focus', async (t) => {
  const event = { operation: 'finish', kind: 'llm', status: 'success', name: 'away' };
  await ui.daemon.call({
    ...{ method: 'POST', path: '/api/v1/observations/batch' },
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ events: [{ ...event, id: 'away', trace_id: 'away' }] }),
  });
  await ui.daemon.call({ path: '/api/v1/traces/away?wait=20s' });
  await page.route(/\/traces\/away\?/, (route) =>
    route.fulfill({ status: 503, json: { code: 'unavailable', message: 'The store is away.' } }),
  );
  await ui.open('/traces?q=name:away');
  await page.getByRole('link', { name: 'away', exact: true }).press('Enter');
  await alert('The store is away.').waitFor();
  await heading('Trace').and(page.locator(':focus')).waitFor();
  await ui.check(t, 'a trace that failed');
  await page.unrouteAll();
});

t.test('says that the sign-in has ended, and goes on with the page', async (t) => {
  // Those of the tests whose daemon was away.
  ui.errors.length = 0;
  await ui.open('/users?range=24h');
  const { sessions } = await ui.admin<{ sessions: { id: string }[] }>('GET', '/sessions/ui');
  for (const { id } of sessions) await ui.admin('DELETE', `/sessions/ui/${id}`);
  await page.getByRole('link', { name: 'Sessions' }).click();
  await page.getByRole('alert').getByText('The sign-in has ended.').waitFor();
  await ui.check(t, 'an ended sign-in');
  const token = readFileSync(join(ui.daemon.directory, 'data', 'admin-token'), 'utf8').trim();
  ui.provoked.add(429);
  await page.route('**/api/v1/session', (route) =>
    route.fulfill({
      ...{ status: 429, headers: { 'retry-after': '90' } },
      json: { code: 'rate_limited', message: 'Too many wrong tokens.' },
    }),
  );
  await page.getByLabel('Admin token').fill(token);
  await page.getByRole('button', { name: 'Sign in' }).click();
  const wait = alert('Too many wrong tokens.').getByRole('timer');
  await wait.filter({ hasText: /^Wait 1 min \d+ s before you try again\.$/ }).waitFor();
  await page.unrouteAll();
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('heading', { level: 1, name: 'Sessions' }).waitFor();
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByLabel('Admin token').waitFor();
  t.equal(await page.getByRole('alert').count(), 0, 'a sign-out needs no reason');
});
