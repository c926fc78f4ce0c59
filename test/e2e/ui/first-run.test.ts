import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import t from 'tap';
import { until } from '../../helper/until.ts';
import { HOSTILE, onPhone, startUi } from './rig.ts';

t.setTimeout(600_000);

const ui = await startUi(t);
const { page, daemon } = ui;
const { projects } = await ui.admin<{ projects: { id: string }[] }>('GET', '/projects');
const snippet = () => page.getByRole('tabpanel').locator('pre').innerText();

t.test('the first page of a new daemon opens the first trace when it arrives', async (t) => {
  await ui.open('/');
  await page.getByRole('heading', { name: 'Is it working?' }).waitFor();
  t.match(page.url(), /\/start/);
  t.match(await snippet(), /YOUR_KEY/);
  t.match(await snippet(), daemon.base);
  await page.getByText('Waiting for the first trace').waitFor();
  await ui.check(t, 'before the first trace');
  await onPhone(page, () => ui.check(t, 'before the first trace, on a phone'));

  await page.getByRole('button', { name: 'Create key' }).click();
  const token = await page.getByLabel('New API key').innerText();
  const text = await snippet();
  t.match(text, `x-api-key: ${token}`);
  t.notMatch(text, /YOUR_KEY/);
  await promisify(execFile)('sh', ['-c', text]);
  await page.waitForURL(/\/traces\/hello-\d+/);
  await ui.open('/');
  await page.waitForURL(/\/traces(\?|$)/);
});

t.test('opens the first trace of a project whose client sends all the time', async (t) => {
  const { id } = await ui.admin<{ id: string }>('POST', '/projects', { name: 'busy' });
  const { token } = await ui.admin<{ token: string }>('POST', `/projects/${id}/keys`, {});
  await ui.open(`/start?project=${id}`);
  await page.getByText('Waiting for the first trace').waitFor();
  const event = { operation: 'finish', kind: 'llm', status: 'success', name: 'busy' };
  // Each trace comes before the former one has shown for long enough to open.
  const end = performance.now() + 60_000;
  for (let index = 0; performance.now() < end && page.url().includes('/start'); index += 1) {
    await ui.sendEvents([{ ...event, id: `b${index}`, trace_id: `busy-${index}` }], token);
    await page
      .getByRole('link', { name: 'busy' })
      .nth(Math.min(index, 4))
      .waitFor({ timeout: 500 })
      .catch(() => {});
  }
  t.match(page.url(), /\/traces\/busy-0\?/);
  await ui.open(`/?project=${projects[0]?.id}`);
});

t.test('a trace of another key does not take a new key from the page', async (t) => {
  const { id } = await ui.admin<{ id: string }>('POST', '/projects', { name: 'two keys' });
  const { token } = await ui.admin<{ token: string }>('POST', `/projects/${id}/keys`, {});
  await ui.open(`/start?project=${id}`);
  await page.getByRole('button', { name: 'Create key' }).click();
  const created = await page.getByLabel('New API key').innerText();
  const event = { operation: 'finish', kind: 'llm', status: 'success' };
  await ui.sendEvents([{ ...event, id: 'x', trace_id: 'of-another', name: 'of another' }], token);
  await page.getByRole('link', { name: 'of another' }).waitFor();
  await page.getByText('It works.', { exact: true }).waitFor();
  await ui.sendEvents([{ ...event, id: 'y', trace_id: 'of-its-own', name: 'of its own' }], created);
  await page.waitForURL(/\/traces\/of-its-own/);
  t.notMatch(page.url(), /of-another/);
  await ui.open(`/?project=${projects[0]?.id}`);
});

t.test('the page stays reachable, and lists what arrives without leaving', async (t) => {
  await ui.open('/start');
  await page.getByText('Waiting for the next trace').waitFor();
  const event = { operation: 'finish', kind: 'llm', status: 'success' };
  const sent = HOSTILE.slice(0, 3).map((name, index) => {
    return { ...event, name, id: `h${index}`, trace_id: `hostile ${index} </b>` };
  });
  await ui.sendEvents(sent);
  for (const name of HOSTILE.slice(0, 3)) await page.getByText(name, { exact: true }).waitFor();
  t.equal(await page.evaluate('globalThis.hacked'), undefined);
  t.match(page.url(), /\/start/);
  await ui.check(t, 'after hostile traces');
  await page.getByRole('link', { name: HOSTILE[0] ?? '' }).click();
  await page.waitForURL(/\/traces\/hostile%200%20%3C%2Fb%3E/);
});

t.test('follows the stream while the page is visible, and shows what arrived before', async (t) => {
  const show = (state: string) =>
    page.evaluate(`Object.defineProperty(document, 'visibilityState', { value: '${state}', configurable: true });
      document.dispatchEvent(new Event('visibilitychange'))`);
  const isStream = (each: { url(): string }) => each.url().includes('/traces/stream');
  const read = page.waitForResponse((each) => each.url().includes('/traces?limit='));
  await ui.open('/start');
  await (await read).finished();
  // The page has taken the answer before that of a later request.
  await page.evaluate("fetch('/api/v1/projects').then((answer) => answer.text())");
  const ended = page.waitForEvent('requestfailed', isStream);
  await show('hidden');
  await ended;
  const event = { operation: 'finish', kind: 'llm', status: 'success', name: 'while hidden' };
  await ui.sendEvents([{ ...event, id: 'hidden', trace_id: 'hidden' }]);
  await ui.daemon.call({ path: '/api/v1/traces/hidden?wait=20s' });
  await show('visible');
  await page.getByRole('link', { name: 'while hidden' }).waitFor();
  t.equal(await page.locator('.start-traces li').count(), 1, 'older traces did not just arrive');
});

t.test('a page that opened in the background shows what arrived since then', async (t) => {
  const hidden = await ui.context.newPage();
  t.teardown(() => hidden.close());
  await hidden.addInitScript(
    "Object.defineProperty(document, 'visibilityState', { value: 'hidden', configurable: true })",
  );
  const read = hidden.waitForResponse((each) => each.url().includes('/traces?limit='));
  await hidden.goto(`${ui.daemon.adminBase}/start`);
  await hidden.getByText('Connecting to the stream').waitFor();
  await (await read).finished();
  await hidden.evaluate("fetch('/api/v1/projects').then((answer) => answer.text())");
  const event = { operation: 'finish', kind: 'llm', status: 'success', name: 'in the background' };
  await ui.sendEvents([{ ...event, id: 'background', trace_id: 'background' }]);
  await ui.daemon.call({ path: '/api/v1/traces/background?wait=20s' });
  await hidden.evaluate(`Object.defineProperty(document, 'visibilityState', { value: 'visible' });
    document.dispatchEvent(new Event('visibilitychange'))`);
  await hidden.getByRole('link', { name: 'in the background' }).waitFor();
  t.equal(await hidden.locator('.start-traces li').count(), 1, 'older traces did not just arrive');
});

t.test('a refused request shows its reason', async (t) => {
  await ui.open('/start');
  await page.getByText('Waiting for the next trace').waitFor();
  const answer = await daemon.call({
    method: 'POST',
    path: '/api/v1/observations/batch',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ events: [{ id: '1' }] }),
  });
  t.equal(answer.status, 400);
  const reason = page.getByRole('alert').getByText('missing_field');
  await reason.waitFor();

  ui.provoked.add(503);
  let failed = 0;
  await page.route(/\/rejections\b/, (route) => {
    failed += 1;
    return route.fulfill({ status: 503, json: { code: 'unavailable', message: 'Not now.' } });
  });
  // The second request follows the answer to the first one.
  await until(() => failed >= 2);
  t.equal(await reason.count(), 1, 'a reading that fails takes no reason away');
  await page.unrouteAll();
  await page.getByRole('link', { name: 'How to correct it' }).click();
  await page.getByRole('heading', { name: 'Rejected' }).waitFor();
});

t.test('each client has a snippet, and the choice is remembered', async (t) => {
  await ui.open('/start');
  const tabs = page.getByRole('tablist', { name: 'Client' });
  const names = await tabs.getByRole('tab').allInnerTexts();
  t.strictSame(names, [
    ...['curl', 'Python', 'JavaScript', 'LangSmith', 'OpenTelemetry SDK', 'Collector', 'Langfuse'],
  ]);
  for (const name of names) {
    await tabs.getByRole('tab', { name }).click();
    t.match(await snippet(), 'YOUR_KEY', name);
  }
  await page.reload();
  await page.getByRole('tab', { name: 'Langfuse', selected: true }).waitFor();
  await page.getByRole('tab', { name: 'Langfuse' }).focus();
  await page.keyboard.press('ArrowRight');
  await page.getByRole('tab', { name: 'curl', selected: true }).waitFor();
});

t.test('the snippets of Python and JavaScript run as they are', async (t) => {
  await ui.open('/start');
  await page.getByRole('button', { name: 'Create key' }).click();
  await page.getByLabel('New API key').waitFor();
  await page.getByRole('tab', { name: 'Python' }).click();
  const python = await promisify(execFile)('python3', ['-c', await snippet()]);
  t.match(python.stdout, '"accepted":1');
  await page.getByRole('tab', { name: 'JavaScript' }).click();
  const args = ['--input-type=module', '-e', await snippet()];
  const script = await promisify(execFile)(process.execPath, args);
  t.match(script.stdout, '"accepted":1');
  await page.getByText('It works.').waitFor();
});
