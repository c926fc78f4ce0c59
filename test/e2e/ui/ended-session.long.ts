import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { startTraces } from './traces-rig.ts';

/** A session that ends while a person works. */
const ui = await startTraces(t);
const { page } = ui;
// The requests of the page whose session ended.
ui.provoked.add(401);

const said = page.getByRole('alert').filter({ hasText: 'The sign-in has ended.' });
const field = page.getByLabel('Admin token');
const heading = (name: string) => page.getByRole('heading', { level: 1, name, exact: true });

async function endSessions(): Promise<void> {
  const { sessions } = await ui.admin<{ sessions: { id: string }[] }>('GET', '/sessions/ui');
  for (const { id } of sessions) await ui.admin('DELETE', `/sessions/ui/${id}`);
}

async function signIn(): Promise<void> {
  await field.fill(readFileSync(join(ui.daemon.directory, 'data', 'admin-token'), 'utf8').trim());
  await page.getByRole('button', { name: 'Sign in' }).click();
  await field.waitFor({ state: 'detached' });
}

t.test('an export asks to sign in, and works after it', async (t) => {
  const exportCsv = async (): Promise<void> => {
    await page.getByRole('button', { name: 'Export' }).click();
    await page.getByRole('menuitem', { name: 'CSV' }).click();
  };
  await ui.open('/traces?q=name:alpha');
  await ui.rows().first().waitFor();
  await endSessions();
  await exportCsv();
  await said.waitFor();
  await signIn();
  await heading('Traces').waitFor();
  t.match(page.url(), 'q=name:alpha');
  const download = page.waitForEvent('download');
  await exportCsv();
  t.equal((await download).suggestedFilename(), 'traces.csv');
});

t.test('the download of a trace asks to sign in, and works after it', async (t) => {
  const link = page.getByRole('link', { name: 'Download' });
  await ui.open('/traces/t1');
  await link.waitFor();
  await endSessions();
  await link.click();
  await said.waitFor();
  await signIn();
  const download = page.waitForEvent('download');
  await link.click();
  t.equal((await download).suggestedFilename(), 't1.json');
});

t.test('a new key stays until it is saved', async (t) => {
  const token = page.getByLabel('New API key');
  const dialog = page.getByRole('dialog');
  await ui.open('/settings/keys');
  await page.getByRole('button', { name: 'Create key' }).click();
  await dialog.getByRole('button', { name: 'Create key' }).click();
  const text = await token.innerText();
  await endSessions();
  await said.waitFor();
  t.equal(await token.innerText(), text);
  await ui.check(t, 'a key of an ended session');
  await dialog.getByRole('button', { name: 'Copy', exact: true }).click();
  await page.getByText('Copied').first().waitFor();
  t.equal(await token.innerText(), text);
  await dialog.getByRole('button', { name: 'Done' }).click();
  await token.waitFor({ state: 'detached' });
  await signIn();
  await page.getByRole('table', { name: 'API keys' }).waitFor();
});

t.test('the key of a rotation stays until it is deployed', async (t) => {
  const token = page.getByLabel('New API key');
  await ui.open('/settings/keys');
  await page.getByRole('button', { name: 'Rotate' }).first().click();
  await page.getByRole('button', { name: 'Create replacement' }).click();
  await token.waitFor();
  await endSessions();
  await said.waitFor();
  t.equal(await token.count(), 1);
  await page.getByRole('button', { name: 'It is deployed' }).click();
  await token.waitFor({ state: 'detached' });
  await signIn();
  await heading('API keys').waitFor();
});

t.test('a sign-out in another tab ends the page with the key at once', async (t) => {
  const token = page.getByLabel('New API key');
  await ui.open('/start');
  await page.getByRole('button', { name: 'Create key' }).click();
  await token.waitFor();
  const other = await ui.context.newPage();
  await other.goto(`${ui.daemon.adminBase}/users`);
  await other.getByRole('button', { name: 'Sign out' }).click();
  await field.waitFor();
  t.equal(await token.count(), 0);
  await other.close();
});
