import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { demoEvents } from './demo.ts';
import { startUi, tabTo } from './rig.ts';

t.setTimeout(600_000);

/** Every flow without a pointer: Tab, Enter, Space, arrows, Escape and text only. */

const ui = await startUi(t);
const { page, daemon } = ui;
// A browser that is signed out.
ui.provoked.add(401);

const { keyboard } = page;
const dialog = page.getByRole('dialog');
const heading = (name: string) => page.getByRole('heading', { level: 1, name }).waitFor();

/** Notes the text of the element that has the focus as soon as the dialog is out of the document. */
const NOTE_FOCUS = `new MutationObserver((_changes, observer) => {
  if (document.querySelector('dialog') !== null) return;
  observer.disconnect();
  window.focusedThen = document.activeElement?.textContent;
}).observe(document.body, { childList: true, subtree: true })`;

async function press(name: string, key = 'Enter'): Promise<void> {
  await tabTo(page, name);
  await keyboard.press(key);
}

await ui.sendEvents(demoEvents(60, Date.now()));
const { projects } = await ui.admin<{ projects: { id: string }[] }>('GET', '/projects');
const first = projects[0]?.id ?? '';
await ui.admin('GET', `/projects/${first}/traces/demo-59?wait=20s`);
await ui.open('/traces');

t.test('goes to each section', async (t) => {
  for (const [link, title] of [
    ['Sessions', 'Sessions'],
    ['Users', 'Users'],
    ['Dashboard', 'Dashboard'],
    ['Rejected', 'Rejected'],
    ['Pipelines', 'Pipelines'],
    ['Traces', 'Traces'],
  ] as const) {
    await press(link);
    await heading(title);
  }
  t.pass('each section opens');
});

t.test('filters, sorts and opens a trace', async (t) => {
  await ui.open('/traces?range=7d');
  const table = page.getByRole('table', { name: 'Traces' });
  await table.getByRole('row').nth(2).waitFor();
  await press('Latency');
  await page.waitForURL(/sort=latency/);
  await keyboard.press('/');
  await keyboard.type('name:support-agent');
  await keyboard.press('Enter');
  await page.waitForURL(/q=name%3Asupport-agent/);
  const others = table.locator('.cell-name').filter({ hasNotText: 'support-agent' });
  await others.first().waitFor({ state: 'detached' });
  await keyboard.press('Tab');
  for (let attempt = 0; attempt < 50; attempt += 1) {
    await keyboard.press('j');
    if ((await table.locator('a:focus').count()) > 0) break;
  }
  await keyboard.press('Enter');
  await page.waitForURL(/\/traces\/demo-/);
  await heading('support-agent');
  t.pass('the first row is open');
});

t.test('reads an observation, its tabs and its payloads', async (t) => {
  await ui.open('/traces/demo-5');
  const tree = page.getByRole('tree', { name: 'Observations of the trace' });
  await tree.getByRole('treeitem').nth(4).waitFor();
  await tree.focus();
  await keyboard.press('End');
  await page.waitForURL(/observation=demo-5-answer/);
  const panel = page.getByRole('region', { name: 'Observation', exact: true });
  await tabTo(page, 'Messages');
  for (const [tab, shown] of [
    ['JSON', panel.getByRole('tree', { name: 'Payloads' })],
    ['Attributes', panel.getByText('total_tokens').first()],
    ['Raw event', panel.getByRole('tree', { name: 'Raw event' })],
  ] as const) {
    await keyboard.press('ArrowRight');
    await panel.getByRole('tab', { name: tab, selected: true }).waitFor();
    await shown.waitFor();
  }
  t.pass('the tabs follow the arrows');
});

t.test('deletes a trace', async (t) => {
  await ui.open('/traces/demo-1');
  await press('Delete trace');
  await dialog.waitFor();
  await press('Delete trace');
  await page.getByRole('dialog', { name: 'The trace is erased' }).waitFor({ timeout: 90_000 });
  await press('Close');
  await page.waitForURL(/\/traces(\?|$)/);
  t.pass('the list is back');
});

t.test('opens a session and a user', async (t) => {
  await ui.open('/sessions?range=7d');
  await page.getByRole('link', { name: 'chat-3', exact: true }).waitFor();
  await press('chat-3');
  await heading('chat-3');
  await ui.open('/users?range=7d');
  const user = 'user-3@example.com';
  await page.getByRole('link', { name: user, exact: true }).waitFor();
  await press(user);
  await heading(user);
  t.pass('both pages open');
});

t.test('chooses what the dashboard adds up by', async (t) => {
  await ui.open('/dashboard?range=7d');
  await page.getByRole('table', { name: 'By model' }).waitFor();
  await tabTo(page, 'Model');
  for (let step = 0; step < 10; step += 1) {
    if ((await page.getByRole('tab', { name: 'User', selected: true }).count()) > 0) break;
    await keyboard.press('ArrowRight');
  }
  await page.getByRole('table', { name: 'By user' }).waitFor();
  t.pass('the table follows');
});

t.test('explains and filters rejections', async (t) => {
  await daemon.call({
    ...{ method: 'POST', path: '/api/v1/observations/batch' },
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ events: [{ id: 'without a trace' }] }),
  });
  await ui.open('/rejected');
  await press('Explain');
  await dialog.getByText('a required field is absent or null').waitFor();
  await keyboard.press('Escape');
  await dialog.waitFor({ state: 'detached' });
  await press('Only these');
  await page.waitForURL(/code=missing_field/);
  t.pass('the address has the filter');
});

t.test('creates, renames, limits, switches and deletes a project', async (t) => {
  await ui.open('/settings/projects');
  await press('Create project');
  await dialog.waitFor();
  await keyboard.type('a first name');
  await keyboard.press('Enter');
  await page.getByRole('button', { name: 'Project: a first name' }).waitFor();

  const row = page.getByRole('row').filter({ hasText: 'a first name' });
  await row.waitFor();
  // Its row is the last one: the keys go there past the first project's buttons.
  await tabTo(page, 'Rename');
  await press('Rename');
  await dialog.waitFor();
  await keyboard.press('ControlOrMeta+a');
  await keyboard.type('second name');
  await keyboard.press('Enter');
  await page.getByRole('row').filter({ hasText: 'second name' }).waitFor();

  await ui.open('/settings/projects');
  await tabTo(page, 'Change limits');
  await press('Change limits');
  await dialog.waitFor();
  await tabTo(page, 'Change limits');
  await keyboard.press('Escape');
  await dialog.waitFor({ state: 'detached' });

  await press('Project: second name');
  await page.locator('[role^=menuitem]:focus').waitFor();
  await keyboard.press('Home');
  await keyboard.press('Enter');
  await page.getByRole('button', { name: 'Project: default' }).waitFor();

  await ui.open('/settings/projects');
  await tabTo(page, 'Delete');
  await press('Delete');
  await dialog.waitFor();
  await keyboard.type('second name');
  await keyboard.press('Enter');
  await dialog.waitFor({ state: 'detached' });
  const { projects: left } = await ui.admin<{ projects: { name: string }[] }>('GET', '/projects');
  t.same(
    left.map(({ name }) => name),
    ['default'],
  );
});

t.test('creates, rotates and revokes a key', async (t) => {
  await ui.open('/settings/keys');
  await press('Create key');
  await dialog.waitFor();
  await keyboard.type('typed');
  await keyboard.press('Enter');
  await page.getByLabel('New API key').waitFor();
  await press('Done');
  await dialog.waitFor({ state: 'detached' });
  const row = page.getByRole('row').filter({ hasText: 'typed' });
  await row.waitFor();

  await row.getByRole('button', { name: 'Rotate' }).focus();
  await keyboard.press('Enter');
  await dialog.waitFor();
  await press('Create replacement');
  const token = await page.getByLabel('New API key').innerText();
  await press('It is deployed');
  await dialog.getByText('Waiting for the first request').waitFor();
  const event = { operation: 'finish', kind: 'llm', status: 'success', name: 'x' };
  await ui.sendEvents([{ ...event, id: 'rotated', trace_id: 'rotated' }], token);
  await dialog.getByRole('button', { name: 'Revoke' }).waitFor({ timeout: 90_000 });
  await press('Revoke');
  await dialog.waitFor({ state: 'detached' });

  await ui.open('/settings/keys');
  await row.getByRole('button', { name: 'Revoke' }).focus();
  await keyboard.press('Enter');
  await dialog.waitFor();
  await press('Revoke');
  await row.waitFor({ state: 'detached' });
  await t.rejects(ui.sendEvents([{ ...event, id: 'late', trace_id: 'late' }], token), /401/);
});

t.test('chooses what usage shows, and a plan', async (t) => {
  await ui.open('/settings/usage');
  await page.getByRole('meter', { name: 'Events this month' }).waitFor();
  await press('Change plan');
  await dialog.waitFor();
  await page.evaluate(NOTE_FOCUS);
  await keyboard.press('Escape');
  await dialog.waitFor({ state: 'detached' });
  t.equal(
    await page.evaluate('window.focusedThen'),
    'Change plan',
    'the focus is back at the button with the removal',
  );
});

t.test('opens the receipt of an erasure', async (t) => {
  await ui.open('/settings/audit?tab=Erasures');
  const receipt = page.getByRole('button', { name: 'Receipt' }).first();
  await receipt.waitFor();
  await press('Receipt');
  await dialog.getByText('Hash of the ids').waitFor();
  await press('Close');
  await dialog.waitFor({ state: 'detached' });
  t.pass('the receipt opens and closes');
});

t.test('changes the theme, signs out, and signs in again', async (t) => {
  await ui.open('/traces');
  await press('Theme');
  await press('Sign out');
  await page.getByLabel('Admin token').waitFor();
  for (let step = 0; step < 10; step += 1) {
    if (await page.evaluate('document.activeElement.type === "password"')) break;
    await keyboard.press('Tab');
  }
  await keyboard.type(readFileSync(join(daemon.directory, 'data', 'admin-token'), 'utf8').trim());
  await keyboard.press('Enter');
  await page.getByRole('table', { name: 'Traces' }).waitFor();
  await ui.check(t, 'signed in again');
});
