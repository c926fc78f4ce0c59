import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Locator } from 'playwright-core';
import t from 'tap';
import { onPhone } from './rig.ts';
import { REFUSAL, startTraces } from './traces-rig.ts';

/** The focus tells a person with a keyboard or a screen reader where the page went on. */
const ui = await startTraces(t);
const { page } = ui;
const { keyboard } = page;

const heading = (name: string): Locator =>
  page.getByRole('heading', { level: 1, name, exact: true });
const focused = page.locator('*:focus');
const hasFocus = (element: Locator): Promise<void> => element.and(focused).waitFor();
const projectId = async (): Promise<string> => {
  const { projects } = await ui.admin<{ projects: { id: string }[] }>('GET', '/projects');
  return projects[0]?.id ?? '';
};
const link = (name: string): Locator => page.getByRole('link', { name, exact: true });

t.test('moves to the heading of a page that opens', async (t) => {
  await ui.open('/traces');
  await ui.rows().first().waitFor();
  t.equal(await page.locator('h1:focus').count(), 0, 'not on the first load');
  await link('Sessions').focus();
  await keyboard.press('Enter');
  await hasFocus(heading('Sessions'));
  t.match(await page.title(), 'Sessions');
  await link('Traces').focus();
  await keyboard.press('Enter');
  await hasFocus(heading('Traces'));
  await link('alpha').focus();
  await keyboard.press('Enter');
  await hasFocus(heading('alpha'));
  await page.goBack();
  await hasFocus(link('alpha'));
  await page.goForward();
  await hasFocus(heading('alpha'));
  await ui.check(t, 'a page with the focus at its heading');
});

t.test('leaves the focus where it is when only the query changes', async (t) => {
  await ui.open('/traces');
  await ui.rows().first().waitFor();
  const sort = page.getByRole('button', { name: 'Latency' });
  await sort.focus();
  await keyboard.press('Enter');
  await page
    .getByRole('columnheader', { name: 'Latency ↓' })
    .or(page.locator('[aria-sort=descending]'))
    .first()
    .waitFor();
  await page.waitForURL(/sort=latency/);
  await hasFocus(sort);
  t.pass('at the button');
});

t.test('stays where a person moved it before the data of the page came', async (t) => {
  await ui.open('/traces');
  await ui.rows().first().waitFor();
  const { promise, resolve } = Promise.withResolvers<void>();
  await page.route(/\/traces\/t1\?/, async (route) => {
    await promise;
    await route.continue();
  });
  await link('alpha').click();
  await page.getByRole('status').filter({ hasText: 'Loading' }).waitFor();
  await link('Users').focus();
  resolve();
  await heading('alpha').waitFor();
  await hasFocus(link('Users'));
  t.pass('at the link');
});

t.test('the skip link moves the focus and changes no address', async (t) => {
  await ui.open('/traces?q=name:alpha');
  await ui.rows().first().waitFor();
  const length = await page.evaluate<number>('history.length');
  await link('Skip to the page').focus();
  await keyboard.press('Enter');
  await hasFocus(page.getByRole('main'));
  t.notMatch(page.url(), '#');
  t.equal(await page.evaluate('history.length'), length);
});

t.test('Home and End choose the first and the last tab', async (t) => {
  await ui.open('/traces/t1');
  const tab = (name: string): Locator => page.getByRole('tab', { name, exact: true });
  await tab('Messages').focus();
  await keyboard.press('End');
  await hasFocus(tab('Raw event').and(page.locator('[aria-selected=true]')));
  await keyboard.press('Home');
  await hasFocus(tab('Messages').and(page.locator('[aria-selected=true]')));
  t.pass('the tab has the focus');
});

t.test('Escape closes the navigation of a narrow screen', async (t) => {
  await onPhone(page, async () => {
    await ui.open('/traces');
    const menu = page.getByRole('button', { name: 'Menu', exact: true });
    await menu.click();
    await link('Sessions').focus();
    await keyboard.press('Escape');
    await hasFocus(menu);
    t.equal(await menu.getAttribute('aria-expanded'), 'false');
  });
});

t.test('an observation that covers a narrow page keeps the focus', async (t) => {
  const sheet = page.getByRole('dialog', { name: 'Observation alpha' });
  const tree = page.getByRole('tree', { name: 'Observations of the trace' });
  const inside = `document.querySelector('dialog.sheet')?.contains(document.activeElement)`;
  await onPhone(page, async () => {
    await ui.open('/traces/t1');
    await tree.getByRole('treeitem').first().click();
    await hasFocus(sheet);
    await page.getByRole('tab', { name: 'Messages' }).waitFor();
    await ui.check(t, 'an observation on a phone');
    const visited = new Set<unknown>();
    for (let step = 0; step < 20; step += 1) {
      await keyboard.press('Tab');
      visited.add(await page.evaluate(`${inside} || document.activeElement === document.body`));
    }
    t.strictSame([...visited], [true], 'Tab stays in it, or goes to the browser');
    await keyboard.press('Escape');
    await hasFocus(tree);
    t.equal(await sheet.count(), 0);
    t.notMatch(page.url(), 'observation=');

    await ui.open('/traces/t1?observation=o1');
    await hasFocus(sheet);
    await sheet.getByRole('button', { name: 'Close' }).click();
    await hasFocus(tree);
    t.equal(await sheet.count(), 0);
  });
});

t.test('a message shows in the dialog that covers the page', async (t) => {
  await onPhone(page, async () => {
    await ui.open('/traces/t1?observation=o1');
    const sheet = page.getByRole('dialog', { name: 'Observation alpha' });
    await sheet.getByRole('tab', { name: 'Messages' }).waitFor();
    await page.evaluate('navigator.clipboard.writeText = () => Promise.reject(new Error("no"))');
    await sheet.getByRole('button', { name: 'Copy request' }).click();
    const message = sheet.getByRole('alert').filter({ hasText: 'does not allow copying' });
    // Not below the sheet: a click reaches it.
    await message.getByText('does not allow copying').click();
    await ui.check(t, 'a message in a dialog');
    await message.getByRole('button', { name: 'Close' }).click();
    await message.waitFor({ state: 'detached' });
    await keyboard.press('Escape');
    await sheet.waitFor({ state: 'detached' });
  });
});

/** The tag of the element with the focus, after the page had the time for a frame and its effects. */
async function focusedAfter(press: () => Promise<void>): Promise<string> {
  await press();
  await page.evaluate('new Promise((done) => requestAnimationFrame(() => setTimeout(done, 50)))');
  return await page.evaluate<string>(
    `document.activeElement.closest('#page') === null ? 'outside of the page' : document.activeElement.tagName`,
  );
}

t.test('a control that leaves the page leaves the focus at its place', async (t) => {
  const tags = Array.from({ length: 40 }, (_, index) => `tag ${index}`);
  await ui.store([{ ...ui.traceOf({ name: 'tagged' }), tags, inputs: 'word '.repeat(2_000) }]);
  const button = (name: RegExp | string): Locator => page.getByRole('button', { name });
  const enter = async (name: RegExp | string): Promise<void> => {
    await button(name).first().press('Enter');
    await button(name).waitFor({ state: 'detached' });
  };

  await ui.open('/traces?q=name:tagged');
  await link('tagged').press('Enter');
  await hasFocus(heading('tagged'));
  t.equal(await focusedAfter(() => enter(/^\d+ more$/)), 'UL', 'at the labels');
  t.equal(await focusedAfter(() => enter(/^Show all/)), 'DIV', 'at the text');

  await ui.open('/traces?q=name:nothing&range=1h');
  await enter('Search all time');
  await enter('Clear the search');
  await hasFocus(page.locator('.list-main'));

  await page.route('**/sessions?**', (route) => route.fulfill(REFUSAL));
  ui.provoked.add(503);
  await ui.open('/sessions');
  await button('Retry').waitFor();
  await page.unroute('**/sessions?**');
  await enter('Retry');
  await hasFocus(page.getByRole('main'));
  await ui.check(t, 'the list that came later');
});

t.test('a row that is deleted leaves the focus at its table', async (t) => {
  await ui.admin('POST', `/projects/${await projectId()}/keys`, { name: 'to revoke' });
  await ui.open('/settings/keys');
  const row = page.getByRole('row').filter({ hasText: 'to revoke' });
  await row.getByRole('button', { name: 'Revoke' }).press('Enter');
  await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).press('Enter');
  await row.waitFor({ state: 'detached' });
  await hasFocus(page.getByRole('table', { name: 'API keys' }).locator('tbody'));
  t.pass('among the other keys');
});

t.test('a button that is disabled while it works has the focus afterwards', async (t) => {
  await page.route('**/api/v1/projects', (route) =>
    route.request().method() === 'POST' ? route.fulfill(REFUSAL) : route.continue(),
  );
  await ui.open('/settings/projects');
  await page.getByRole('button', { name: 'Create project' }).press('Enter');
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Name').fill('refused');
  await dialog.getByRole('button', { name: 'Create project' }).press('Enter');
  await dialog.getByRole('alert').waitFor();
  await hasFocus(dialog.getByRole('button', { name: 'Create project' }));
  t.pass('the same Enter tries again');
});

/** Types in one turn of the page: on a busy machine a pause between two keys may begin another word. */
async function typeAtOnce(text: string): Promise<void> {
  await page.evaluate(`for (const key of ${JSON.stringify(text)}) {
    document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
  }`);
}

t.test('letters find an item of a menu', async (t) => {
  for (const name of ['Beta', 'beacon', 'gamma ray', 'gamma rho']) {
    await ui.admin('POST', '/projects', { name });
  }
  await ui.open('/traces');
  const item = (name: string): Locator => page.getByRole('menuitemradio', { name, exact: true });
  const menu = page.getByRole('menu');
  await page.getByRole('button', { name: 'Project: default' }).press('Enter');
  await hasFocus(item('default'));
  await typeAtOnce('beac');
  await hasFocus(item('beacon'));
  await keyboard.press('Escape');
  await menu.waitFor({ state: 'detached' });
  // Opened again, it begins a new word.
  await page.getByRole('button', { name: 'Project: default' }).press('Enter');
  await hasFocus(item('default'));
  await typeAtOnce('gamma rh');
  await hasFocus(item('gamma rho'));
  await keyboard.press('Enter');
  await page.getByRole('button', { name: 'Project: gamma rho' }).waitFor();
  t.pass('the letters of one word go together');
});

t.test('a field finds a project in a long menu', async (t) => {
  for (let index = 0; index < 12; index += 1) {
    await ui.admin('POST', '/projects', {
      name: `Fraud ${index % 2 === 0 ? 'dev' : 'prod'} ${index}`,
    });
  }
  await ui.open('/traces');
  const field = page.getByRole('searchbox', { name: 'Find a project' });
  const items = page.getByRole('menuitemradio');
  const open = (): Promise<void> => page.getByRole('button', { name: 'Project: ' }).press('Enter');
  await open();
  await hasFocus(field);
  await ui.check(t, 'a long menu');
  await keyboard.insertText('PROD fr');
  await items.filter({ hasText: 'Fraud dev' }).first().waitFor({ state: 'detached' });
  t.equal(await items.count(), 6);
  await keyboard.press('ArrowDown');
  await keyboard.press('ArrowDown');
  await hasFocus(items.nth(1));
  await keyboard.press('ArrowUp');
  await keyboard.press('ArrowUp');
  await hasFocus(field);
  await keyboard.press('ArrowDown');
  // A letter goes on with the text.
  await keyboard.type('x');
  await page.getByText('Nothing is found').waitFor();
  await keyboard.press('Enter');
  await page.getByRole('menuitem', { name: 'Manage projects…' }).waitFor();
  await keyboard.press('Escape');
  await field.waitFor({ state: 'detached' });
  await hasFocus(page.getByRole('button', { name: 'Project: ' }));
  await open();
  await keyboard.type('prod 11');
  await keyboard.press('Enter');
  await page.getByRole('button', { name: 'Project: Fraud prod 11' }).waitFor();
  t.equal(await field.count(), 0, 'the menu is closed');
});

t.test('a sign-in has the focus at the token, and then at the page', async (t) => {
  await ui.open('/users');
  await page.getByRole('button', { name: 'Sign out' }).click();
  await hasFocus(page.getByLabel('Admin token'));
  await keyboard.type(
    readFileSync(join(ui.daemon.directory, 'data', 'admin-token'), 'utf8').trim(),
  );
  await keyboard.press('Enter');
  await hasFocus(heading('Users'));
  t.pass('at the heading');
});
