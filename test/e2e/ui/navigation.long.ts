import t from 'tap';
import { startUi } from './rig.ts';

t.setTimeout(600_000);

/** Back and Forward, addresses of several projects, and several tabs. */

const ui = await startUi(t);
const { page } = ui;
ui.provoked.add(404);

type Project = { readonly id: string; readonly name: string };
const { projects } = await ui.admin<{ projects: Project[] }>('GET', '/projects');
const first = projects[0]?.id ?? '';

const COUNT = 130;

function traceOf(id: string, secondsAgo: number): object {
  const start = Date.now() - secondsAgo * 1_000;
  return {
    ...{ observation_id: id, trace_id: id, operation: 'finish', kind: 'llm', name: id },
    ...{ status: 'success', metadata: { session_id: `s-${id}` }, inputs: `input of ${id}` },
    start_time: new Date(start).toISOString(),
    end_time: new Date(start + 500).toISOString(),
  };
}

await ui.sendEvents(Array.from({ length: COUNT }, (_, index) => traceOf(`t${index}`, 60 + index)));
await ui.admin('GET', `/projects/${first}/traces/t${COUNT - 1}?wait=20s`);

const table = page.getByRole('table', { name: 'Traces' });
const row = (name: string) => table.getByRole('link', { name, exact: true });
const heading = (name: string) => page.getByRole('heading', { level: 1, name, exact: true });
const scrollTop = (): Promise<number> => page.evaluate('scrollY');
const dialog = page.getByRole('dialog');

t.test('Back from a trace shows the list where it was', async (t) => {
  await ui.open('/traces');
  await row('t49').waitFor();
  await page.locator('.list-end').scrollIntoViewIfNeeded();
  await row('t99').waitFor();
  await row('t80').scrollIntoViewIfNeeded();
  const top = await scrollTop();
  const asked: string[] = [];
  page.on('request', (each) => asked.push(each.url()));
  await row('t80').click();
  await heading('t80').waitFor();
  t.equal(await scrollTop(), 0, 'the trace begins at its top');
  await page.goBack();
  await row('t80').waitFor();
  t.equal(await scrollTop(), top);
  t.equal(
    await table
      .locator('tr.is-chosen')
      .textContent()
      .then((text) => text?.includes('t80')),
    true,
  );
  t.same(
    asked.filter((url) => /\/traces\?/.test(url) && url.includes('/api/')),
    [],
    'the list is not read again',
  );
  await page.locator('.list-end').scrollIntoViewIfNeeded();
  await row(`t${COUNT - 1}`).waitFor();
  t.equal(await table.locator('tbody tr').count(), COUNT, 'the list goes on');
  await page.goForward();
  await heading('t80').waitFor();
  await page.goBack();
  await row(`t${COUNT - 1}`).waitFor();
  page.removeAllListeners('request');
});

t.test('keys go on from the trace that was opened', async (t) => {
  await ui.open('/traces');
  await row('t5').click();
  await heading('t5').waitFor();
  await page.goBack();
  await row('t5').waitFor();
  await page.keyboard.press('j');
  await page.keyboard.press('Enter');
  await heading('t6').waitFor();
  t.pass('the row below opened');
});

t.test('Back from a session shows the list of sessions where it was', async (t) => {
  await ui.open('/sessions');
  const link = (name: string) => page.getByRole('link', { name, exact: true });
  await link('s-t49').waitFor();
  await page.locator('.list-end').scrollIntoViewIfNeeded();
  await link('s-t99').waitFor();
  await link('s-t90').scrollIntoViewIfNeeded();
  const top = await scrollTop();
  await link('s-t90').click();
  await heading('s-t90').waitFor();
  await page.goBack();
  await link('s-t90').waitFor();
  t.equal(await scrollTop(), top);
});

t.test('Back from a search shows the former list', async (t) => {
  await ui.open('/traces');
  await row('t49').waitFor();
  await page.locator('.list-end').scrollIntoViewIfNeeded();
  await row('t99').waitFor();
  await page.keyboard.press('/');
  await page.keyboard.type('name:t7');
  await page.keyboard.press('Enter');
  await row('t8').waitFor({ state: 'detached' });
  await row('t7').waitFor();
  await page.goBack();
  await row('t99').waitFor();
  t.equal(await page.getByRole('searchbox', { name: 'Search traces' }).inputValue(), '');
});

t.test('a deleted trace is not in the list that Back shows', async (t) => {
  await ui.open('/traces');
  await row('t0').click();
  await page.getByRole('button', { name: 'Delete trace' }).click();
  await dialog.getByRole('button', { name: 'Delete trace' }).click();
  await page.getByRole('dialog', { name: 'The trace is erased' }).waitFor({ timeout: 90_000 });
  await page.goBack();
  await row('t1').waitFor();
  t.equal(await dialog.count(), 0);
  t.equal(await row('t0').count(), 0);
});

const { id: second } = await ui.admin<Project>('POST', '/projects', { name: 'second' });
const { token } = await ui.admin<{ token: string }>('POST', `/projects/${second}/keys`, {});
await ui.sendEvents([traceOf('t20', 30)], token);
await ui.admin('GET', `/projects/${second}/traces/t20?wait=20s`);

t.test('Back closes a dialog, which asks about an object of the page that was left', async (t) => {
  await ui.open(`/traces/t20?project=${first}`);
  await page.getByRole('button', { name: 'Project: default' }).click();
  await page.getByRole('menuitemradio', { name: 'second' }).click();
  await page.waitForURL(/project=/);
  await page.getByRole('button', { name: 'Project: second' }).waitFor();
  await heading('t20').waitFor();
  await page.getByRole('button', { name: 'Delete trace' }).click();
  await dialog.waitFor();
  await page.goBack();
  await page.getByRole('button', { name: 'Project: default' }).waitFor();
  await dialog.waitFor({ state: 'detached' });
  await ui.open(`/settings/projects?project=${first}`);
  await page.getByRole('button', { name: 'Switch' }).click();
  await page.getByRole('button', { name: 'Project: second' }).waitFor();
  await page.getByRole('button', { name: 'Delete' }).first().click();
  await dialog.waitFor();
  await page.goBack();
  await dialog.waitFor({ state: 'detached' });
  t.pass('no dialog is left');
});

t.test('Back from a new key warns before it leaves the page', async (t) => {
  const token = page.getByLabel('New API key');
  const warning = page.getByRole('alert').getByText('not shown again');
  await ui.open(`/traces?project=${first}`);
  await page.getByRole('link', { name: 'Settings' }).click();
  await page.getByRole('link', { name: 'API keys' }).click();
  await page.getByRole('button', { name: 'Create key' }).click();
  await dialog.getByRole('button', { name: 'Create key' }).click();
  const text = await token.innerText();
  await page.goBack();
  await warning.waitFor();
  t.equal(await token.innerText(), text);
  t.match(page.url(), '/settings/keys');
  await page.goBack();
  await token.waitFor({ state: 'detached' });
  t.match(page.url(), '/settings');
  t.notMatch(page.url(), '/settings/keys');
});

t.test('a link and a reload ask before they lose a key that was not copied', async (t) => {
  const token = page.getByLabel('New API key');
  const warning = page.getByRole('alert').getByText('not shown again');
  const link = page.getByRole('link', { name: 'Sessions' });
  const create = async (): Promise<void> => {
    await ui.open(`/start?project=${first}`);
    await page.getByRole('button', { name: 'Create key' }).click();
    await token.waitFor();
  };
  await create();
  const asked = page.waitForEvent('dialog');
  void page.evaluate('setTimeout(() => location.reload())');
  const question = await asked;
  t.equal(question.type(), 'beforeunload');
  await question.dismiss();
  await link.click();
  await warning.waitFor();
  t.match(page.url(), '/start');
  t.equal(await token.count(), 1);
  await link.click();
  await heading('Sessions').waitFor();

  await create();
  await page.evaluate('localStorage.clear()');
  await page.getByRole('button', { name: 'Project: ' }).click();
  await page.getByRole('menuitemradio', { name: 'second' }).click();
  await warning.waitFor();
  const kept = 'Object.values(localStorage).join()';
  t.notMatch(await page.evaluate(kept), second, 'a switch that only warned is not remembered');

  await create();
  await page.locator('.new-key').getByRole('button', { name: 'Copy' }).click();
  await page.getByText('Copied').waitFor();
  await link.click();
  await heading('Sessions').waitFor();
  t.pass('without a question');
});

t.test('says that the project of the address does not exist', async (t) => {
  for (const path of ['/traces', '/traces/t20', '/dashboard', '/settings/keys', '/start']) {
    await page.goto(`${ui.daemon.adminBase}${path}?project=proj_gone`);
    await heading('There is no such project').waitFor();
    t.match(await page.getByRole('main').textContent(), 'proj_gone');
  }
  await ui.check(t, 'an unknown project');
  await page.getByRole('button', { name: 'Open second' }).click();
  await page.waitForURL(new RegExp(`project=${second}`));
  await page.getByRole('button', { name: 'Project: second' }).waitFor();
  await heading('There is no such project').waitFor({ state: 'detached' });
  await ui.open('/settings/projects?project=proj_gone');
  await page.getByRole('table', { name: 'Projects' }).getByText('second').waitFor();
});

t.test('shows nothing of a project after another one is chosen', async (t) => {
  const data = page.getByRole('main').locator('table, .sums, [role=tree]');
  for (const path of ['/traces', '/traces/t30', '/sessions', '/sessions/s-t30', '/dashboard']) {
    await ui.open(`${path}?project=${first}`);
    await data.first().waitFor();
    const { promise, resolve } = Promise.withResolvers<void>();
    await page.route(/\/api\/v1\/projects\/[^?]/, async (route) => {
      await promise;
      await route.continue().catch(() => undefined);
    });
    await page.getByRole('button', { name: 'Project: ' }).click();
    await page.getByRole('menuitemradio', { name: 'second' }).click();
    await page.getByRole('status').filter({ hasText: 'Loading' }).first().waitFor();
    t.equal(await data.count(), 0, path);
    resolve();
    await page.unrouteAll({ behavior: 'wait' });
  }
});

t.test('opens the project of an address that another tab created', async (t) => {
  await ui.open('/traces');
  const { id } = await ui.admin<Project>('POST', '/projects', { name: 'third' });
  await page.evaluate(`history.pushState(null, '', '/traces?project=${id}');
    dispatchEvent(new PopStateEvent('popstate'))`);
  await page.getByRole('button', { name: 'Project: third' }).waitFor();
  await ui.admin('DELETE', `/projects/${id}`);
  t.pass('the list of projects was read again');
});

t.test('a tab keeps its project when another tab chooses one', async (t) => {
  await page.evaluate('localStorage.clear()');
  await ui.open('/traces');
  await page.waitForURL(new RegExp(`project=${first}`));
  const other = await ui.context.newPage();
  await other.goto(`${ui.daemon.adminBase}/traces`);
  await other.getByRole('button', { name: 'Project: default' }).click();
  await other.getByRole('menuitemradio', { name: 'second' }).click();
  await other.getByRole('button', { name: 'Project: second' }).waitFor();
  await other.close();
  await page.getByRole('link', { name: 'Sessions' }).click();
  await heading('Sessions').waitFor();
  t.equal(await page.getByRole('button', { name: 'Project: default' }).count(), 1);
});

t.test('a sign-out in another tab ends this one too, with what it keeps', async (t) => {
  await ui.open('/traces');
  await table.waitFor();
  await page.getByRole('link', { name: 'Sessions' }).click();
  await heading('Sessions').waitFor();
  const other = await ui.context.newPage();
  await other.goto(`${ui.daemon.adminBase}/traces`);
  await other.getByRole('button', { name: 'Sign out' }).click();
  await page.getByLabel('Admin token').waitFor();
  await page.goBack();
  t.equal(await table.count(), 0);
  t.equal(await page.getByLabel('Admin token').count(), 1);
  const { code } = await ui.admin<{ code: string }>('POST', '/sessions/codes');
  await other.goto(`${ui.daemon.adminBase}/#code=${code}`);
  await table.waitFor();
  t.equal(await page.getByLabel('Admin token').count(), 0, 'a sign-in there opens the page again');
  await other.close();
});

t.test('nothing turns for a person who wants less motion', async (t) => {
  const ENDLESS = `document.getAnimations()
    .filter(({ effect }) => effect.getComputedTiming().endTime === Infinity).length`;
  await ui.open('/start');
  await page.getByText('Waiting for the').waitFor();
  t.equal(await page.evaluate(ENDLESS), 1, 'the sign of the page that waits');
  await page.emulateMedia({ reducedMotion: 'reduce' });
  t.equal(await page.evaluate(ENDLESS), 0);
  await page.emulateMedia({ reducedMotion: null });
});
