import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Locator } from 'playwright-core';
import t from 'tap';
import { onPhone } from './rig.ts';
import { startTraces } from './traces-rig.ts';

/** The focus tells a person with a keyboard or a screen reader where the page went on. */
const ui = await startTraces(t);
const { page } = ui;
const { keyboard } = page;

const heading = (name: string): Locator =>
  page.getByRole('heading', { level: 1, name, exact: true });
const focused = page.locator('*:focus');
const hasFocus = (element: Locator): Promise<void> => element.and(focused).waitFor();
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
