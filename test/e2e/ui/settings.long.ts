import type { Page } from 'playwright-core';
import t from 'tap';
import { until } from '../../helper/until.ts';
import { HOSTILE, onPhone, startUi, tabTo } from './rig.ts';

t.setTimeout(600_000);

type Project = { readonly id: string; readonly name: string };

const ui = await startUi(t);
const { page } = ui;
// The last project, and a project that the plan does not allow.
ui.provoked.add(409);

/** The option of a key in a rotation. */
const labelOf = async (name: string): Promise<string> =>
  (await page.getByRole('option', { name: new RegExp(name) }).textContent()) ?? '';
/** The open dialog. */
const dialog = (on: Page = page) => on.getByRole('dialog');
const rowOf = (name: string) => page.getByRole('row').filter({ hasText: name });
const press = (name: string) => page.getByRole('button', { name, exact: true }).click();
const confirm = (verb: string) => dialog().getByRole('button', { name: verb, exact: true }).click();

/** Pixels by which the table is wider than its room. */
const HIDDEN = `(() => {
  const { scrollWidth, clientWidth } = document.querySelector('.records-scroll');
  return scrollWidth - clientWidth;
})()`;

async function projects(): Promise<readonly Project[]> {
  return (await ui.admin<{ projects: Project[] }>('GET', '/projects')).projects;
}

t.test('creates a project once if the list of projects fails', async (t) => {
  const before = await projects();
  ui.provoked.add(503);
  await ui.open('/settings/projects');
  await rowOf('default').waitFor();
  const problem = { code: 'unavailable', message: 'The store is away.' };
  await page.route(/\/api\/v1\/projects$/, (route) =>
    route.request().method() === 'GET'
      ? route.fulfill({ status: 503, json: problem })
      : route.continue(),
  );
  await press('Create project');
  await dialog().getByLabel('Name').fill('once');
  await dialog().getByRole('button', { name: 'Create project' }).click();
  await dialog().waitFor({ state: 'detached' });
  await rowOf('once').getByText('current').waitFor();
  await page.unrouteAll();
  const added = (await projects()).slice(before.length);
  t.match(added, [{ name: 'once' }]);
  t.equal(added.length, 1);
  await ui.admin('DELETE', `/projects/${added[0]?.id}`);
});

t.test('creates, renames, limits and switches projects', async (t) => {
  await ui.open('/settings/projects');
  await press('Create project');
  await dialog().getByLabel('Name').fill('staging');
  await confirm('Create project');
  await rowOf('staging').waitFor();
  await page.getByRole('button', { name: 'Project: staging' }).waitFor();

  await rowOf('staging').getByRole('button', { name: 'Rename' }).click();
  await dialog().getByLabel('Name').fill('Staging EU');
  await confirm('Rename');
  await rowOf('Staging EU').waitFor();

  await rowOf('Staging EU').getByRole('button', { name: 'Change limits' }).click();
  await dialog().getByLabel('Retention in days').fill('30');
  await dialog().getByLabel('Events a month').fill('1.5M');
  await dialog().getByLabel('Bytes an hour').fill('abc');
  await confirm('Change limits');
  await dialog().getByRole('alert').getByText('Bytes an hour').waitFor();
  await dialog().getByLabel('Bytes an hour').fill('512 MiB');
  await confirm('Change limits');
  await rowOf('Staging EU').getByText('30 days').waitFor();
  await rowOf('Staging EU').getByText('512 MiB/hour').waitFor();
  t.match(
    (await projects()).find(({ name }) => name === 'Staging EU'),
    {
      retention: { days: 30 },
      limits: { events_per_month: 1_500_000, bytes_per_hour: 536_870_912 },
    },
  );

  await rowOf('default').getByRole('button', { name: 'Switch' }).click();
  await page.getByRole('button', { name: 'Project: default' }).waitFor();
  await page.reload();
  await page.getByRole('button', { name: 'Project: default' }).waitFor();
  await rowOf('Staging EU').waitFor();
  t.equal(await page.evaluate<number>(HIDDEN), 0, 'every button of a project is in view');
  await ui.check(t, 'projects');
});

t.test('a deletion says what goes, and needs the name', async (t) => {
  const { id } = await ui.admin<Project>('POST', '/projects', { name: 'doomed' });
  const { token } = await ui.admin<{ token: string }>('POST', `/projects/${id}/keys`, {});
  const event = { operation: 'finish', kind: 'llm', status: 'success', name: 'x' };
  await ui.sendEvents([{ ...event, id: 'o1', trace_id: 't1' }], token);
  await ui.open('/settings/projects');
  await rowOf('doomed').getByRole('cell', { name: '1', exact: true }).waitFor();
  await rowOf('doomed').getByRole('button', { name: 'Delete' }).click();
  await dialog().getByText('1 API key').waitFor();
  await dialog().getByText('1 retained trace', { exact: false }).waitFor();
  const button = dialog().getByRole('button', { name: 'Delete', exact: true });
  t.ok(await button.isDisabled(), 'the name is not typed');
  await dialog().getByRole('textbox').fill('doome');
  t.ok(await button.isDisabled(), 'the name is typed in part');
  await dialog().getByRole('textbox').fill('doomed');
  await ui.check(t, 'the dialog of a deletion');
  await button.click();
  await rowOf('doomed').waitFor({ state: 'detached' });
  t.notOk((await projects()).some((each) => each.id === id));
});

t.test('the refusals of the daemon say how to go on', async (t) => {
  const before = await projects();
  for (const { id, name } of before) {
    if (name !== 'default') await ui.admin('DELETE', `/projects/${id}`);
  }
  await ui.open('/settings/projects');
  await rowOf('default').getByRole('button', { name: 'Delete' }).click();
  await dialog().getByRole('textbox').fill('default');
  await confirm('Delete');
  await dialog().getByRole('alert').getByText('Create another project first').waitFor();
  await confirm('Cancel');

  await ui.admin('PATCH', '/organization', { plan: 'free' });
  await press('Create project');
  await dialog().getByLabel('Name').fill('one too many');
  await confirm('Create project');
  await dialog().getByRole('alert').getByRole('link', { name: 'Change the plan' }).waitFor();
  await confirm('Cancel');
  await ui.admin('PATCH', '/organization', { plan: 'scale' });
  t.equal((await projects()).length, 1);
});

t.test('a new key shows once, works, and is revoked', async (t) => {
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await ui.open('/settings/keys');
  await press('Create key');
  await dialog().getByLabel('Name').fill('ci runner');
  await dialog().getByLabel('traces:read').uncheck();
  await confirm('Create key');
  const token = await page.getByLabel('New API key').innerText();
  t.match(token, /^ws_\w{20,}$/);
  await confirm('Copy');
  await page.getByText('Copied').waitFor();
  t.equal(await page.evaluate('navigator.clipboard.readText()'), token);
  await dialog().getByText('Settings to paste').click();
  await dialog().getByText(`x-api-key: ${token}`).waitFor();
  t.match(await dialog().locator('pre').innerText(), ui.daemon.base);
  await ui.check(t, 'the dialog of a new key');
  await page.keyboard.press('Escape');
  await dialog().waitFor({ state: 'detached' });
  t.equal(await page.getByText(token).count(), 0, 'the token is gone');
  t.notMatch(await page.content(), token);

  await rowOf('ci runner').getByText('never used').waitFor();
  t.equal(
    await rowOf('ci runner').getByText('traces:read').count(),
    0,
    'the permission was left out',
  );
  const event = { operation: 'finish', kind: 'llm', status: 'success', name: 'x' };
  await ui.sendEvents([{ ...event, id: 'o2', trace_id: 't2' }], token);
  await rowOf('ci runner').getByText('in use').waitFor({ timeout: 90_000 });
  await rowOf('ci runner').getByRole('button', { name: 'Revoke' }).click();
  await dialog().getByText('It was last used').waitFor();
  await confirm('Revoke');
  await rowOf('ci runner').waitFor({ state: 'detached' });
  await t.rejects(ui.sendEvents([{ ...event, id: 'o3', trace_id: 't3' }], token), /401/);
  await page.getByRole('switch', { name: 'Show 1 revoked' }).click();
  await rowOf('ci runner').getByText('revoked', { exact: true }).waitFor();
  await ui.check(t, 'keys');
});

t.test('a dialog with a new key warns until the key is copied', async (t) => {
  await ui.open('/settings/keys');
  await press('Create key');
  await dialog().getByLabel('Name').fill('closed by a key');
  await confirm('Create key');
  const token = page.getByLabel('New API key');
  await token.waitFor();
  await page.keyboard.press('Escape');
  const warning = dialog().getByRole('alert').getByText('not shown again');
  await warning.waitFor();
  await token.click({ clickCount: 3 });
  await page.keyboard.press('ControlOrMeta+c');
  await warning.waitFor({ state: 'detached' });
  await page.keyboard.press('Escape');
  await dialog().waitFor({ state: 'detached' });

  await rowOf('closed by a key').getByRole('button', { name: 'Rotate' }).click();
  await press('Create replacement');
  await confirm('Copy');
  await page.getByText('Copied').waitFor();
  await confirm('Finish later');
  await dialog().waitFor({ state: 'detached' });
  t.pass('a copied key needs no second answer');
});

t.test('a dialog stays while a new key is on its way', async (t) => {
  await ui.open('/settings/keys');
  const held: (() => void)[] = [];
  await page.route(/\/keys$/, async (route) => {
    if (route.request().method() === 'POST') {
      await new Promise<void>((resolve) => void held.push(resolve));
    }
    await route.continue();
  });
  const closeEarly = async (): Promise<void> => {
    await until(() => held.length > 0);
    await page.keyboard.press('Escape');
    held.pop()?.();
    await page.getByLabel('New API key').waitFor();
    await confirm('Copy');
    await page.getByText('Copied').waitFor();
    await page.keyboard.press('Escape');
    await dialog().waitFor({ state: 'detached' });
  };
  await press('Create key');
  await dialog().getByLabel('Name').fill('on its way');
  for (const each of ['ingest:write', 'traces:read']) await dialog().getByLabel(each).uncheck();
  await confirm('Create key');
  await dialog().getByRole('alert').getByText('Choose a permission').waitFor();
  await dialog().getByLabel('ingest:write').check();
  await confirm('Create key');
  await closeEarly();
  await rowOf('on its way').getByRole('button', { name: 'Rotate' }).click();
  await press('Create replacement');
  await closeEarly();
  await page.unrouteAll();
  await rowOf('on its way').nth(1).waitFor();
  t.equal(await rowOf('on its way').count(), 2);
});

t.test('copies a key without a clipboard, as on a page without TLS', async (t) => {
  await ui.open('/settings/keys');
  await page.evaluate(`Object.defineProperty(navigator, 'clipboard', { value: undefined });
    document.addEventListener('copy', ({ target }) => { globalThis.copied = target.value; })`);
  await press('Create key');
  await dialog().getByLabel('Name').fill('without TLS');
  await confirm('Create key');
  const token = await page.getByLabel('New API key').innerText();
  await confirm('Copy');
  await page.getByText('Copied').waitFor();
  t.equal(await page.evaluate('globalThis.copied'), token);
  t.equal(await page.evaluate('document.activeElement.textContent.trim()'), 'Copied');
  await confirm('Done');
});

t.test('a rotation revokes the old key only after the use of the new one', async (t) => {
  const [first] = await projects();
  const path = `/projects/${first?.id}/keys`;
  const old = await ui.admin<{ id: string }>('POST', path, { name: 'rotated' });
  await ui.open('/settings/keys');
  await rowOf('rotated').getByRole('button', { name: 'Rotate' }).click();
  await press('Create replacement');
  const token = await page.getByLabel('New API key').innerText();
  t.equal(await dialog().getByRole('button', { name: 'Revoke' }).count(), 0);
  await page.keyboard.press('Escape');
  await dialog().getByRole('alert').getByText('not shown again').waitFor();
  t.equal(await page.getByLabel('New API key').innerText(), token, 'an accident loses no token');
  await press('It is deployed');
  await dialog().getByText('Waiting for the first request').waitFor();
  t.equal(await dialog().getByRole('button', { name: 'Revoke' }).count(), 0);
  await ui.check(t, 'a rotation');
  const event = { operation: 'finish', kind: 'llm', status: 'success', name: 'x' };
  await ui.sendEvents([{ ...event, id: 'o4', trace_id: 't4' }], token);
  await dialog().getByRole('button', { name: 'Revoke' }).click({ timeout: 90_000 });
  await dialog().waitFor({ state: 'detached' });
  type Keys = { keys: { id: string; name: string; revoked_at: string | null }[] };
  const { keys } = await ui.admin<Keys>('GET', path);
  t.not(keys.find(({ id }) => id === old.id)?.revoked_at, null);
  t.equal(keys.filter((each) => each.name === 'rotated' && each.revoked_at === null).length, 1);
});

t.test('a rotation with an idle key waits for its next use', async (t) => {
  const path = `/projects/${(await projects())[0]?.id}/keys`;
  for (const name of ['out of date', 'idle for long']) await ui.admin('POST', path, { name });
  let last_used_at = '2026-01-01T00:00:00.000Z';
  type Keys = { keys: { name: string }[] };
  await page.route(/\/api\/.*\/keys$/, async (route) => {
    const answer = await route.fetch();
    const { keys } = (await answer.json()) as Keys;
    const changed = keys.map((each) => ({
      ...each,
      ...(each.name === 'idle for long' ? { last_used_at } : {}),
    }));
    await route.fulfill({ json: { keys: changed } });
  });
  await ui.open('/settings/keys');
  await rowOf('out of date').getByRole('button', { name: 'Rotate' }).click();
  await dialog()
    .getByRole('combobox')
    .selectOption({ label: await labelOf('idle for long') });
  await dialog().getByText('Waiting for a request').waitFor();
  t.equal(await dialog().getByRole('button', { name: 'Revoke' }).count(), 0);
  await ui.check(t, 'a rotation with an idle key');
  last_used_at = new Date().toISOString();
  await dialog().getByRole('button', { name: 'Revoke' }).waitFor();
  await page.unrouteAll();
});

t.test('a rotation that is left with a new key on the page warns first', async (t) => {
  await ui.open('/settings/keys');
  await page.getByRole('button', { name: 'Rotate' }).first().click();
  await confirm('Create replacement');
  const token = page.getByLabel('New API key');
  await token.waitFor();
  await confirm('Finish later');
  await dialog().getByRole('alert').getByText('not shown again').waitFor();
  t.equal(await token.count(), 1);
  await confirm('Finish later');
  await dialog().waitFor({ state: 'detached' });
});

t.test('hostile names stay texts, and are deleted like others', async (t) => {
  for (const name of HOSTILE) {
    const { id } = await ui.admin<Project>('POST', '/projects', { name });
    await ui.admin('POST', `/projects/${id}/keys`, { name });
  }
  await ui.open('/settings/projects');
  await page
    .getByText(HOSTILE[0] ?? '')
    .first()
    .waitFor();
  await ui.check(t, 'hostile projects');
  await onPhone(page, () => ui.check(t, 'hostile projects on a phone'));
  for (const { id, name } of (await projects()).filter((each) => HOSTILE.includes(each.name))) {
    await ui.open(`/settings/keys?project=${id}`);
    await rowOf(name).first().waitFor();
    t.equal(await page.evaluate('globalThis.hacked'), undefined, name);
  }
  await ui.check(t, 'a hostile key');
  await onPhone(page, () => ui.check(t, 'a hostile key on a phone'));
  await ui.open('/settings/projects');
  const bidi = HOSTILE.find((each) => each.includes('\u202E')) ?? '';
  await rowOf('gnp.exe').getByRole('button', { name: 'Delete' }).click();
  const typed = await dialog().locator('label strong').innerText();
  t.match(typed, /^proj_/, 'a name that no key types is confirmed by the id');
  await dialog().getByRole('textbox').fill(typed);
  await confirm('Delete');
  await rowOf('gnp.exe').waitFor({ state: 'detached' });
  t.notOk((await projects()).some(({ name }) => name === bidi));
});

t.test('names of keys do not turn the text beside them, and show', async (t) => {
  const { id } = await ui.admin<Project>('POST', '/projects', { name: '\u200B' });
  for (const name of ['rotated', 'prod\u202Etset', '\u2060']) {
    await ui.admin('POST', `/projects/${id}/keys`, { name });
  }
  await ui.open(`/settings/keys?project=${id}`);
  await page.getByRole('button', { name: 'Project: (blank)' }).waitFor();
  await rowOf('no name').waitFor();
  await rowOf('rotated').getByRole('button', { name: 'Rotate' }).click();
  t.match(await labelOf('tset'), /^\u2068prodtset\u2069 \(ws_\w+…\)$/);
  const [blank = ''] = (await page.getByRole('option').allTextContents()).slice(1);
  t.match(blank, /^(ws_\w+…) \(\1\)$/, 'a key without a name that shows goes by its token');
  await page.keyboard.press('Escape');
});

t.test('a keyboard is enough to create a project and a key', async (t) => {
  const keys = async (...names: string[]) => {
    for (const name of names) await page.keyboard.press(name);
  };
  await ui.open('/settings/projects');
  await tabTo(page, 'Create project');
  await keys('Enter');
  await dialog().waitFor();
  await page.keyboard.type('by keyboard');
  await keys('Enter');
  await page.getByRole('button', { name: 'Project: by keyboard' }).waitFor();
  await tabTo(page, 'API keys');
  await keys('Enter');
  await page.getByRole('heading', { name: 'API keys' }).waitFor();
  await tabTo(page, 'Create key');
  await keys('Enter');
  await dialog().waitFor();
  await page.keyboard.type('typed');
  await keys('Enter');
  await page.getByLabel('New API key').waitFor();
  await tabTo(page, 'Done');
  await keys('Enter');
  await rowOf('typed').waitFor();
  t.pass('done without a pointer');
});

t.test('a field finds projects and keys in a long list', async (t) => {
  const id = (await projects())[0]?.id ?? '';
  for (let index = 0; index < 13; index += 1) {
    await ui.admin('POST', '/projects', {
      name: `found ${index % 2 === 0 ? 'dev' : 'prod'} ${index}`,
    });
    await ui.admin('POST', `/projects/${id}/keys`, { name: `host ${index}` });
  }
  await ui.open(`/settings/projects?project=${id}`);
  await page.getByRole('searchbox', { name: 'Find a project' }).fill('PROD found');
  await page.getByText(/^6 of \d+$/).waitFor();
  t.equal(await page.getByRole('button', { name: 'Switch' }).count(), 6);
  await ui.check(t, 'found projects');
  await page.getByRole('searchbox', { name: 'Find a project' }).fill('none such');
  await page.getByRole('heading', { name: 'No project is found' }).waitFor();

  await ui.open(`/settings/keys?project=${id}`);
  await page.getByRole('searchbox', { name: 'Find a key' }).fill('host 12');
  await page.waitForURL(/find=host/);
  await page.getByText(/^1 of \d+$/).waitFor();
  await page.reload();
  await rowOf('host 12').waitFor();
  t.equal(
    await page.getByRole('button', { name: 'Revoke' }).count(),
    1,
    'the address has the text',
  );
  await onPhone(page, () => ui.check(t, 'a found key, on a phone'));
  await rowOf('host 12').getByRole('link', { name: 'Traces' }).click();
  await page.waitForURL(/traces\?.*q=key/);
  await page.getByRole('heading', { name: 'No trace matches' }).waitFor();
});
