import t from 'tap';
import { HOSTILE, onPhone } from './rig.ts';
import { HOUR, REFUSAL, startTraces } from './traces-rig.ts';

t.setTimeout(600_000);

const ui = await startTraces(t);
const { page, rows, store, traceOf } = ui;
const table = page.getByRole('table', { name: 'Traces' });
const search = page.getByRole('searchbox', { name: 'Search traces' });

/** Resolves after 20 frames. */
const FRAMES = `(async () => {
  for (let frame = 0; frame < 20; frame += 1) await new Promise(requestAnimationFrame);
})()`;

/** A browser whose clock is off by so many milliseconds. */
const CLOCK = (ms: number): string => `
  globalThis.Date = class extends Date {
    static now() {
      return super.now() + ${ms};
    }
    constructor(...parts) {
      super(...(parts.length === 0 ? [new.target.now()] : parts));
    }
  };`;

t.test('lists the traces of the range, newest first', async (t) => {
  await ui.open('/traces');
  await rows().nth(2).waitFor();
  t.same(await rows().locator('.cell-name').allTextContents(), ['alpha', 'beta', 'gamma']);
  t.match(await rows().nth(0).textContent(), /question about alpha.*answer about alpha/);
  await page.getByRole('figure', { name: 'Traces over time' }).getByText('3 traces').waitFor();
  await page.getByText('· 1 failed').waitFor();
  await ui.check(t, 'the list');
  await onPhone(page, () => ui.check(t, 'the list on a phone'));
});

t.test('takes ranges and ages from the clock of the daemon', async (t) => {
  for (const hours of [72, -72]) {
    // A tab of its own: the others keep their clock.
    const other = await ui.context.newPage();
    await other.addInitScript(CLOCK(hours * HOUR));
    await other.goto(`${ui.daemon.adminBase}/traces?range=24h`);
    const row = other.getByRole('row').filter({ hasText: 'alpha' });
    await row.getByText('1 h ago').waitFor();
    t.equal(await other.getByRole('row').count(), 4, `the range of a clock that is ${hours} h off`);
    await other.getByRole('figure').getByText('3 traces').waitFor();
    await other.close();
  }
});

t.test('searches with suggestions, and keeps the query in the address', async (t) => {
  await ui.open('/traces');
  await rows().nth(2).waitFor();
  await page.keyboard.press('/');
  await page.keyboard.type('mod');
  await page.getByRole('option', { name: /^model:/ }).waitFor();
  await page.keyboard.press('ArrowDown');
  await page.getByRole('option', { selected: true }).waitFor();
  await page.keyboard.press('Enter');
  t.equal(await search.inputValue(), 'model:');
  await page.keyboard.type('cl');
  await page.getByRole('option', { name: /claude-sonnet-4-5/ }).waitFor();
  await page.keyboard.press('ArrowDown');
  await page.getByRole('option', { selected: true }).waitFor();
  await page.keyboard.press('Enter');
  await rows().nth(1).waitFor({ state: 'detached' });
  t.same(await rows().locator('.cell-name').allTextContents(), ['beta']);
  t.match(page.url(), /q=model%3Aclaude-sonnet-4-5/);
  await page.reload();
  await rows().first().waitFor();
  t.equal(await search.inputValue(), 'model:claude-sonnet-4-5');
});

t.test('Escape closes the suggestions and keeps the text', async (t) => {
  await ui.open('/traces');
  await rows().nth(2).waitFor();
  await page.keyboard.press('/');
  await page.keyboard.type('mod');
  const option = page.getByRole('option', { name: /^model:/ });
  await option.waitFor();
  await page.keyboard.press('Escape');
  await option.waitFor({ state: 'detached' });
  t.equal(await search.inputValue(), 'mod');
  await page.keyboard.press('Escape');
  t.equal(await search.inputValue(), 'mod');
});

t.test('the button that empties the search box shows the whole list', async (t) => {
  await ui.open('/traces?q=name:beta');
  await rows().nth(1).waitFor({ state: 'detached' });
  const box = await search.boundingBox();
  if (box === null) throw new Error('the search box is not there');
  // The browser draws the button in front of the padding of 44 pixels.
  await page.mouse.click(box.x + box.width - 52, box.y + box.height / 2);
  await rows().nth(2).waitFor();
  await page.waitForURL((url) => !url.searchParams.has('q'));
  t.pass('the address has no query');
});

t.test('selects a suggestion by an arrow key that follows a letter at once', async (t) => {
  await ui.open('/traces');
  await rows().nth(2).waitFor();
  await search.focus();
  await page.evaluate(`(async () => {
    const input = document.activeElement;
    input.value = 'mod';
    input.setSelectionRange(3, 3);
    input.dispatchEvent(new InputEvent('input', { bubbles: true }));
    await undefined;
    input.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowDown', bubbles: true }));
    // A selection that a later suggestion takes back is gone by then.
    await new Promise((resolve) => setTimeout(resolve, 200));
  })()`);
  t.match(await page.getByRole('option', { selected: true }).textContent(), /^model:/);
});

t.test('the columns of a list fit into a window of 1,008 pixels or more', async (t) => {
  const SCROLLED = `[...document.querySelectorAll('.table-scroll')].map(
    ({ scrollWidth, clientWidth }) => scrollWidth - clientWidth,
  )`;
  const column = (name: string) => table.getByRole('columnheader', { name });
  // The last one is 1,440 pixels beside a scroll bar. The others are the edges of each layout.
  for (const width of [1_008, 1_225, 1_226, 1_424, 1_425]) {
    await page.setViewportSize({ width, height: 900 });
    await ui.open('/traces');
    await column('Output').waitFor();
    t.same(await page.evaluate(SCROLLED), [0], String(width));
    t.equal(await column('Session').count(), width === 1_425 ? 1 : 0);
  }
  await page.setViewportSize({ width: 1_024, height: 768 });
  await column('Session').waitFor({ state: 'detached' });
  await ui.check(t, 'the list on a small screen');
  await page.getByRole('button', { name: 'Columns' }).click();
  await page.getByRole('menuitemcheckbox', { name: 'Session' }).click();
  await column('Session').waitFor();
  await page.evaluate('localStorage.clear()');
  await page.setViewportSize({ width: 1_440, height: 900 });
});

t.test('reaches the end of the navigation in a low window', async (t) => {
  await page.setViewportSize({ width: 1_000, height: 400 });
  await ui.open('/traces');
  const last = page.getByRole('button', { name: 'Sign out' });
  await last.scrollIntoViewIfNeeded();
  const box = await last.boundingBox();
  t.ok(box !== null && box.y >= 0 && box.y + box.height <= 400, JSON.stringify(box));
  await page.setViewportSize({ width: 1_440, height: 900 });
});

t.test('marks the mistake of a query, and asks the daemon for nothing', async (t) => {
  await ui.open('/traces?q=status:error%20modle:x');
  const alert = page.getByRole('alert');
  await alert.getByText('did you mean "model"').waitFor();
  t.equal(await alert.locator('mark').textContent(), 'm');
  t.equal(await table.count(), 0);
  await ui.check(t, 'a query with a mistake');
});

t.test('adds and removes values by the filters', async (t) => {
  await ui.open('/traces');
  const filters = page.getByRole('region', { name: 'Filters' });
  await filters.getByRole('button', { name: /^beta/ }).click();
  await page.waitForURL(/q=name%3Abeta/);
  await filters.getByRole('button', { name: /^alpha/ }).click();
  await page.waitForURL(/q=name%3Abeta%2Calpha/);
  // The list shows the former rows until the answer is there.
  await rows().nth(2).waitFor({ state: 'detached' });
  await rows().nth(1).waitFor();
  t.equal(await rows().count(), 2);
  await filters.getByRole('button', { name: /^beta/ }).click();
  await filters.getByRole('button', { name: /^alpha/ }).click();
  await rows().nth(2).waitFor();
  t.equal(await search.inputValue(), '');
});

t.test('the filters of all time count every trace, and say which hours they count', async (t) => {
  await store([traceOf({ name: 'very old', hoursAgo: 24 * 100 })]);
  await ui.open('/traces?range=all&q=');
  const filters = page.getByRole('region', { name: 'Filters' });
  await filters.getByRole('button', { name: 'very old 1' }).waitFor();
  t.equal(await filters.getByText('Counts since').count(), 0);
  const half = new Date(Math.floor(Date.now() / HOUR) * HOUR - HOUR / 2).toISOString();
  await ui.open(`/traces?from=${half}`);
  await filters.getByText('Counts since').first().waitFor();
  await ui.check(t, 'filters of whole hours');
});

t.test('sorts by a column, and chooses columns', async (t) => {
  await ui.open('/traces');
  await table.getByRole('button', { name: 'Latency' }).click();
  await page.waitForURL(/sort=latency/);
  await rows().first().filter({ hasText: 'beta' }).waitFor();
  t.equal(
    await table.getByRole('columnheader', { name: 'Latency' }).getAttribute('aria-sort'),
    'descending',
  );
  await page.getByRole('button', { name: 'Columns' }).click();
  await page.getByRole('menuitemcheckbox', { name: 'Output' }).click();
  await table.getByRole('columnheader', { name: 'Output' }).waitFor({ state: 'detached' });
  await ui.open('/traces');
  await rows().first().waitFor();
  t.equal(await table.getByRole('columnheader', { name: 'Output' }).count(), 0, 'it is remembered');
});

t.test('the menu of columns stays open for several choices', async (t) => {
  await ui.open('/traces');
  const button = page.getByRole('button', { name: 'Columns' });
  const item = (name: string) => page.getByRole('menuitemcheckbox', { name, exact: true });
  const column = (name: string) => table.getByRole('columnheader', { name, exact: true });
  const isChosen = (name: string) => item(name).getAttribute('aria-checked');
  await button.click();
  t.same([await isChosen('Models'), await isChosen('Name')], ['false', 'true']);
  await item('Models').click();
  await column('Models').waitFor();
  await item('Source').focus();
  await page.keyboard.press('Space');
  await column('Source').waitFor();
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await column('Trace id').waitFor();
  await item('Models').click();
  await column('Models').waitFor({ state: 'detached' });
  t.same([await isChosen('Models'), await isChosen('Source')], ['false', 'true']);
  await ui.check(t, 'a menu of several choices');
  await page.keyboard.press('Escape');
  await item('Models').waitFor({ state: 'detached' });
  t.ok(await button.evaluate((each) => each === each.ownerDocument.activeElement));
  await button.click();
  await item('Models').waitFor();
  await page.getByRole('heading', { level: 1 }).click();
  await item('Models').waitFor({ state: 'detached' });
  await page.evaluate('localStorage.clear()');
});

t.test('the menu says that the last column stays', async (t) => {
  await ui.open('/traces?columns=name,cost');
  const item = (name: string) => page.getByRole('menuitemcheckbox', { name, exact: true });
  await page.getByRole('button', { name: 'Columns' }).click();
  t.equal(await item('Name').getAttribute('aria-disabled'), 'false');
  await item('Cost').click();
  await table.getByRole('columnheader', { name: 'Cost' }).waitFor({ state: 'detached' });
  await item('Name').and(page.locator('[aria-disabled=true]')).waitFor();
  t.equal(await item('Name').getAttribute('title'), 'A list has at least one column');
  await item('Name').press('Enter');
  await ui.check(t, 'the last column');
  await item('Cost').click();
  await item('Name').and(page.locator('[aria-disabled=false]')).waitFor();
  await page.evaluate('localStorage.clear()');
});

t.test('finds traces by a score', async (t) => {
  const { projects } = await ui.admin<{ projects: { id: string }[] }>('GET', '/projects');
  const score = (trace: string, value: number): Promise<unknown> =>
    ui.admin('POST', `/projects/${projects[0]?.id}/traces/${trace}/scores`, {
      name: 'how good',
      value,
    });
  await score('t1', 0.9);
  await score('t2', 0.4);
  await ui.open('/traces');
  const filters = page.getByRole('region', { name: 'Filters' });
  await filters.getByText('Score', { exact: true }).click();
  const [name, value] = [
    filters.getByLabel('Name of the score'),
    filters.getByLabel('Value of the score'),
  ];
  const suggested = filters.locator('datalist option');
  await suggested.waitFor({ state: 'attached' });
  t.equal(await suggested.getAttribute('value'), 'how good');
  await name.fill('how good');
  await value.fill('good');
  await value.press('Enter');
  t.equal(await search.inputValue(), '', 'only numbers compare');
  await value.fill('0.5');
  await value.press('Enter');
  await rows().nth(1).waitFor({ state: 'detached' });
  await rows().filter({ hasText: 'alpha' }).waitFor();
  t.equal(await search.inputValue(), 'score."how good":>=0.5');
  await name.fill('how good');
  await filters.getByRole('button', { name: 'Add' }).click();
  await page.waitForURL(/has/);
  t.equal(await search.inputValue(), 'score."how good":>=0.5 has:score."how good"');
  await ui.check(t, 'filters by scores');
  await onPhone(page, () => ui.check(t, 'filters by scores, on a phone'));
  await filters.getByRole('button', { name: '"how good":>=0.5', exact: true }).click();
  await rows().nth(1).waitFor();
  t.equal(await search.inputValue(), 'has:score."how good"');
});

t.test('Tab closes a menu, and goes on from its button', async (t) => {
  await ui.open('/traces');
  const button = page.getByRole('button', { name: 'Export' });
  const items = page.getByRole('menuitem');
  const hasFocus = (of: typeof button) =>
    of.evaluate((each) => each === each.ownerDocument.activeElement);
  await button.press('Enter');
  await items.first().waitFor();
  await page.keyboard.press('Tab');
  await items.first().waitFor({ state: 'detached' });
  t.ok(await hasFocus(search), 'the next element');
  await button.press('Enter');
  await items.first().waitFor();
  await page.keyboard.press('Shift+Tab');
  await items.first().waitFor({ state: 'detached' });
  t.ok(await hasFocus(page.getByRole('button', { name: 'Columns' })), 'the one before');
});

t.test('says what to do when nothing matches', async (t) => {
  await ui.open('/traces?q=name:nothing');
  await page.getByRole('heading', { name: 'No trace matches' }).waitFor();
  await ui.check(t, 'an empty list');
  await page.getByRole('button', { name: 'Clear the search' }).click();
  await rows().first().waitFor();
  await ui.open('/traces?q=name:%22old%20one%22');
  await page.getByRole('button', { name: 'Search all time' }).click();
  await rows().first().waitFor();
});

t.test('chooses a range by dragging over the bars', async (t) => {
  await ui.open('/traces?range=24h');
  const bars = page.getByRole('figure', { name: 'Traces over time' }).locator('svg');
  await page.getByText('3 traces').waitFor();
  const box = await bars.boundingBox();
  if (box === null) throw new Error('the bars are not there');
  await page.mouse.move(box.x + box.width - 2, box.y + 20);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.9, box.y + 20, { steps: 4 });
  await page.mouse.up();
  await page.waitForURL(/from=.*to=/);
  t.notMatch(page.url(), /range=/);
});

t.test('chooses a range of the bars by the keyboard', async (t) => {
  await ui.open('/traces?range=24h');
  const figure = page.getByRole('figure', { name: 'Traces over time' });
  await figure.getByText('3 traces').waitFor();
  await page.keyboard.press('/');
  await page.keyboard.press('Tab');
  const bars = page.getByRole('slider', { name: 'Range of time' });
  await bars.and(page.locator(':focus')).waitFor();
  t.equal(await bars.getAttribute('aria-valuetext'), 'The whole range');
  const ONE = / UTC: \d traces?, \d failed$/;
  await page.keyboard.press('ArrowLeft');
  await figure.locator('figcaption').getByText(ONE).waitFor();
  t.match(await bars.getAttribute('aria-valuetext'), ONE);
  await page.keyboard.press('Escape');
  await figure.getByText('3 traces').waitFor();
  const markThree = async (): Promise<void> => {
    for (const key of ['ArrowLeft', 'Shift+ArrowLeft', 'Shift+ArrowLeft']) {
      await page.keyboard.press(key);
    }
  };
  await markThree();
  await ui.check(t, 'bars that are marked');
  await onPhone(page, async () => {
    const marked = await bars.boundingBox();
    const isCut = await figure
      .locator('figcaption span')
      .evaluate((span) => span.scrollWidth > span.clientWidth);
    t.notOk(isCut, 'the caption is whole on a phone');
    await page.keyboard.press('Escape');
    await figure.locator('strong').waitFor();
    t.equal((await bars.boundingBox())?.y, marked?.y, 'the caption does not move the bars');
    await markThree();
  });
  await page.keyboard.press('Enter');
  await page.waitForURL(/from=.*to=/);
  const { searchParams } = new URL(page.url());
  const [from, to] = ['from', 'to'].map((name) => Date.parse(searchParams.get(name) ?? ''));
  t.equal((to ?? 0) - (from ?? 0), 3 * HOUR);
  await page.getByRole('button', { name: /^Range: .* UTC$/ }).waitFor();
});

t.test('a mark goes when the bars of a live list are other ones', async (t) => {
  await page.clock.install();
  await ui.open('/traces?range=24h&live=1');
  const figure = page.getByRole('figure', { name: 'Traces over time' });
  await figure.getByText('3 traces').waitFor();
  await page.getByRole('slider', { name: 'Range of time' }).focus();
  await page.keyboard.press('ArrowLeft');
  await figure.locator('.bar-selection').waitFor();
  await page.clock.fastForward(HOUR);
  await figure.locator('.bar-selection').waitFor({ state: 'detached' });
  await figure.getByText('3 traces').waitFor();
  await page.keyboard.press('Enter');
  t.match(page.url(), /range=24h/);
  await page.clock.resume();
});

t.test('opens a trace by the keyboard only', async (t) => {
  await ui.open('/traces');
  await rows().first().waitFor();
  await page.keyboard.press('j');
  await page.keyboard.press('j');
  await page.keyboard.press('k');
  await page.keyboard.press('Enter');
  await page.waitForURL(/\/traces\/t1\b/);
  t.pass('the first row is open');
});

t.test('shows the arrow of each sorted column', async (t) => {
  for (const sort of ['start', 'latency', 'tokens', 'cost']) {
    await ui.open(`/traces?sort=${sort}`);
    await page.locator('[aria-sort=descending]').waitFor();
    const isCut = await page.evaluate<boolean>(`(() => {
      const head = document.querySelector('[aria-sort=descending]');
      const button = head.querySelector('button').getBoundingClientRect();
      const arrow = head.querySelector('[aria-hidden]').getBoundingClientRect();
      const column = head.getBoundingClientRect();
      return arrow.right > column.right || arrow.right > button.right || button.right > column.right;
    })()`);
    t.notOk(isCut, sort);
  }
});

t.test('an address with an order that does not exist shows the newest first', async (t) => {
  await ui.open('/traces?sort=foo&order=up');
  await rows().first().waitFor();
  await page.locator('[aria-sort=descending]').getByText('Time').waitFor();
  t.equal(await page.getByRole('alert').count(), 0);
});

t.test('says the count of a search, and not those of a live list', async (t) => {
  const count = page.getByRole('figure', { name: 'Traces over time' }).getByRole('status');
  await ui.open('/traces');
  await count.getByText('traces').waitFor();
  t.equal(await count.getAttribute('aria-live'), 'polite');
  await page.evaluate(`new MutationObserver((changes) => {
    globalThis.wasSaid = changes.some(({ addedNodes }) => addedNodes.length > 0);
  }).observe(document.querySelector('.histogram [role=status]'), { childList: true })`);
  await search.fill('name:alpha');
  await page.keyboard.press('Enter');
  await count.getByText('1 trace', { exact: true }).waitFor();
  t.equal(await page.evaluate('globalThis.wasSaid'), true, 'a same text would be said too');
  await page.getByRole('switch', { name: 'Live' }).click();
  await page.waitForURL(/live=1/);
  await page.locator('.histogram [aria-live=off]').waitFor();
});

t.test('stays on the page when the daemon refuses an export', async (t) => {
  const exportCsv = async (): Promise<void> => {
    await page.getByRole('button', { name: 'Export' }).click();
    await page.getByRole('menuitem', { name: 'CSV' }).click();
  };
  await ui.open('/traces?q=modle:x');
  await exportCsv();
  await search.fill('');
  await page.keyboard.press('Enter');
  await rows().first().waitFor();
  const download = page.waitForEvent('download', (each) => each.url().includes('q=') === false);
  await exportCsv();
  t.equal((await download).suggestedFilename(), 'traces.csv');
});

t.test('the columns of tables are in view on a small screen', async (t) => {
  await store([traceOf({ name: 'long', user: 'u'.repeat(90), session: 's'.repeat(90) })]);
  const { id } = await ui.admin<{ id: string }>('POST', '/projects', {
    name: 'long name '.repeat(9),
  });
  const before = page.viewportSize();
  for (const width of [768, 1010, 1011, 1024, 1201, 1280, 1440]) {
    await page.setViewportSize({ width, height: 768 });
    for (const path of ['/sessions', '/users', '/dashboard', '/settings/projects']) {
      await ui.open(path);
      await page.locator('.records tbody tr').first().waitFor();
      const hidden = await page.evaluate<number>(`(() => {
        const { scrollWidth, clientWidth } = document.querySelector('.records-scroll');
        return scrollWidth - clientWidth;
      })()`);
      t.equal(hidden, 0, `${path}, ${width} pixels`);
    }
  }
  await ui.admin('DELETE', `/projects/${id}`);
  if (before !== null) await page.setViewportSize(before);
});

t.test('lists sessions and users, and opens them', async (t) => {
  await ui.open('/sessions');
  await page.getByRole('link', { name: 'chat-2' }).click();
  await page.getByRole('heading', { name: 'chat-2' }).waitFor();
  await page.getByRole('heading', { level: 2, name: 'gamma' }).waitFor();
  await page.getByText('question about gamma').waitFor();
  await page.getByText('answer about gamma').waitFor();
  await page.getByText('gamma has no model').waitFor();
  await page.getByText('1 failed observation').waitFor();
  await ui.check(t, 'a session');
  await onPhone(page, () => ui.check(t, 'a session on a phone'));
  await page.getByRole('link', { name: 'bob' }).click();
  await page.getByRole('heading', { name: 'bob' }).waitFor();
  await page
    .getByRole('table', { name: 'Newest traces' })
    .getByRole('link', { name: 'gamma' })
    .waitFor();
  await ui.check(t, 'a user');
  await ui.open('/users');
  await page.getByRole('table', { name: 'Users' }).getByRole('link', { name: 'ada' }).waitFor();
  await ui.check(t, 'the users');
});

t.test('says what to do when no session and no user matches', async (t) => {
  for (const [path, one, many] of [
    ['/sessions', 'session', 'sessions'],
    ['/users', 'user', 'users'],
  ] as const) {
    const link = page
      .getByRole('table', { name: many })
      .getByRole('link', { name: one === 'user' ? 'ada' : 'chat-1', exact: true })
      .first();
    await ui.open(`${path}?q=name:nothing`);
    await page.getByRole('heading', { name: `No ${one} matches` }).waitFor();
    await ui.check(t, `no ${one} matches`);
    await page.getByRole('button', { name: 'Clear the search' }).click();
    await link.waitFor();
    t.notMatch(page.url(), /q=/);
    await ui.open(`${path}?q=name:%22old%20one%22`);
    await page.getByText('The range is “Last 7 days”.').waitFor();
    await page.getByRole('button', { name: 'Search all time' }).click();
    await link.waitFor();
    t.match(page.url(), /range=all/);
    await ui.open(`${path}?from=2020-01-01&to=2020-01-02`);
    await page.getByRole('heading', { name: `No ${many} in this range` }).waitFor();
    await page.getByText(`A trace belongs to a ${one} if`).waitFor();
  }
});

t.test('says how many sessions and users a search finds', async (t) => {
  const said = page.getByRole('status').filter({ hasText: /^\d+ \w+$/ });
  const searched = async (path: string, q: string): Promise<string> => {
    await ui.open(path);
    await said.waitFor();
    await page.evaluate('window.statusBefore = document.querySelector(".group-count")');
    await page.getByRole('searchbox').fill(q);
    await page.getByRole('searchbox').press('Enter');
    await page.waitForURL(/q=/);
    await page.getByRole('main').locator('.is-stale').waitFor({ state: 'detached' });
    await said.waitFor();
    t.equal(
      await page.evaluate('window.statusBefore === document.querySelector(".group-count")'),
      true,
      'the same region, so that a screen reader reads its change',
    );
    return await said.innerText();
  };
  t.equal(await searched('/sessions', 'user:bob '), '1 session');
  t.equal(await searched('/users', 'user:ada,bob '), '2 users');
  t.equal(await searched('/users', 'user:unknown '), '0 users');
});

t.test('a session shows the digits of large integers as they were sent', async (t) => {
  const { rawJSON } = JSON as unknown as { rawJSON(text: string): unknown };
  const id = rawJSON('12345678901234567890');
  const usage = { input_tokens: Number.MAX_SAFE_INTEGER, output_tokens: 10 ** 15 };
  await store([{ ...traceOf({ name: 'digits', session: 'digits' }), inputs: { id }, usage }]);
  await ui.open('/sessions/digits');
  await page.getByText('12345678901234567890', { exact: true }).waitFor();
  await page.getByText('10P tokens').waitFor();
  t.pass('and counts of tokens beyond them');
});

t.test('cuts the end of a long name, in either direction of writing', async (t) => {
  const SEEN = `[...document.querySelectorAll('.traces tbody .cell-name .cut')].map((cut) => {
    const box = cut.getBoundingClientRect();
    const range = document.createRange();
    range.setStart(cut.firstChild, 0);
    range.setEnd(cut.firstChild, 1);
    const first = range.getBoundingClientRect();
    return first.left >= box.left - 1 && first.right <= box.right + 1;
  })`;
  const names = [
    'وكيل الدعم الفني للعملاء '.repeat(8),
    'support agent of the customers '.repeat(8),
  ];
  await store(names.map((name) => traceOf({ name, session: 'long names' })));
  await ui.open('/traces?q=session:"long names"');
  await rows().nth(1).waitFor();
  t.same(await page.evaluate(SEEN), [true, true]);
  await ui.check(t, 'long names in both directions');
});

t.test('a column of texts has one edge, in either direction of writing', async (t) => {
  const user = 'משתמש';
  await store([
    traceOf({ name: 'one edge', user, session: 'edge 1' }),
    traceOf({ name: 'one edge', user: 'eve', session: 'edge 2' }),
  ]);
  const EDGES = `[...document.querySelectorAll('td a[href*="/users/"]')].map((link) => {
    const range = document.createRange();
    range.selectNodeContents(document.createTreeWalker(link, NodeFilter.SHOW_TEXT).nextNode());
    return Math.round(range.getClientRects()[0].left);
  })`;
  for (const path of ['/traces?q=name:"one edge"', '/sessions?range=all']) {
    await ui.open(path);
    await page.getByRole('link', { name: user }).first().waitFor();
    const edges = await page.evaluate<number[]>(EDGES);
    t.ok(edges.length > 0);
    t.equal(new Set(edges).size, 1, `${path}: ${edges.join(' ')}`);
  }
});

t.test('shows hostile texts as texts', async (t) => {
  await store(
    HOSTILE.map((text, index) =>
      traceOf({
        name: text,
        user: text,
        session: text,
        model: text,
        hoursAgo: 0.1 + index / 1_000,
      }),
    ),
  );
  for (const path of ['/traces', '/sessions', '/users', '/dashboard']) {
    await ui.open(path);
    await page.getByText('<img src=x onerror').first().waitFor();
    await ui.check(t, `hostile texts at ${path}`);
  }
  await ui.open(`/users/${encodeURIComponent(HOSTILE[1] ?? '')}`);
  await page.getByRole('table', { name: 'Newest traces' }).waitFor();
  await ui.check(t, 'a hostile user');
  t.equal(await page.evaluate('globalThis.hacked'), undefined);
});

t.test('a name without a character that shows has a link with a text', async (t) => {
  const blank = ' \u200B\u00A0 ';
  await store([traceOf({ name: blank, user: blank, session: blank, hoursAgo: 0 })]);
  await ui.open('/traces?q=has:user -user:ada -user:bob');
  await table.getByRole('link', { name: '(blank)' }).first().waitFor();
  await ui.check(t, 'a list with a blank name');
  for (const [path, name] of [
    ['/users', 'Users'],
    ['/sessions', 'Sessions'],
  ] as const) {
    await ui.open(path);
    const list = page.getByRole('table', { name });
    await list.getByRole('link', { name: '(blank)' }).first().click();
    await page.getByRole('heading', { level: 1, name: '(blank)' }).waitFor();
    await page.getByRole('main').getByRole('link', { name: '(blank)' }).first().waitFor();
    await ui.check(t, `a blank id of ${path}`);
  }
});

t.test('shows no rows of a former query when the daemon fails', async (t) => {
  ui.provoked.add(503);
  await ui.open('/traces');
  await rows().first().waitFor();
  await page.route(/\/traces\?.*q=name/, (route) => route.fulfill(REFUSAL));
  await search.fill('name:beta');
  await page.keyboard.press('Enter');
  await page.getByRole('alert').getByText('The store is away.').waitFor();
  t.equal(await table.count(), 0);
  await page.unrouteAll();
  await page.getByRole('button', { name: 'Retry' }).click();
  await rows().filter({ hasText: 'beta' }).waitFor();
  t.equal(await rows().count(), 1);
});

t.test('reads the further pages of a range that ends now', async (t) => {
  const many = Array.from({ length: 60 }, (_, index) => `many ${index}`);
  await store(many.map((name) => traceOf({ name, session: name })));
  await ui.open('/traces?q=name:many*');
  await rows().nth(49).scrollIntoViewIfNeeded();
  await page.getByText('No further traces').waitFor();
  t.equal(await rows().count(), 60);
  await ui.open('/sessions?q=name:many*');
  await page.getByRole('link', { name: /^many/ }).first().waitFor();
  await page.locator('.list-end').scrollIntoViewIfNeeded();
  await page.getByText('No further sessions').waitFor();
  t.equal(await page.getByRole('link', { name: /^many/ }).count(), 60);
  await page.getByRole('status').getByText('60 sessions', { exact: true }).waitFor();
  await ui.check(t, 'the further pages');
});

t.test('asks for a page that failed only when a person does', async (t) => {
  let asked = 0;
  await page.route(/\/traces\?.*cursor=/, (route) => {
    asked += 1;
    return route.fulfill(REFUSAL);
  });
  await ui.open('/traces?q=name:many*');
  const more = page.locator('.list-end').getByRole('button', { name: 'More' });
  await more.scrollIntoViewIfNeeded();
  const alert = page.getByRole('alert').filter({ hasText: 'The store is away.' });
  await alert.waitFor();
  await more.scrollIntoViewIfNeeded();
  // Frames in which an observer of the end of the list would have called back.
  await page.evaluate(FRAMES);
  t.equal(asked, 1);
  t.equal(await rows().count(), 50);
  await page.unrouteAll();
  await alert.getByRole('button', { name: 'Retry' }).click();
  await rows().nth(59).waitFor();
  t.equal(await rows().count(), 60);
  await ui.check(t, 'the whole list');
});

t.test('goes on after a page that ended early, until one found nothing', async (t) => {
  type Page = Record<'traces' | 'sessions', object[]>;
  const lists = [
    { path: '/traces?q=name:many*', of: 'traces', request: /\/api\/.*\/traces\?/, row: 'row' },
    {
      path: '/sessions?q=name:many*',
      of: 'sessions',
      request: /\/api\/.*\/sessions\?/,
      row: 'link',
    },
  ] as const;
  for (const { path, of, request, row } of lists) {
    let asked = 0;
    const early = { partial: true, searched_to: new Date(Date.now() - HOUR).toISOString() };
    // Two pages with a row and a cursor, then one without a row, then the real rest of the list.
    await page.route(request, async (route) => {
      asked += 1;
      if (asked > 3) return route.continue();
      const url = new URL(route.request().url());
      url.searchParams.set('limit', '1');
      const response = await route.fetch({ url: url.href });
      const answer = (await response.json()) as Page;
      const cursor = url.searchParams.get('cursor');
      const empty = { [of]: [], next_cursor: cursor };
      return route.fulfill({ json: { ...answer, ...early, ...(asked === 3 ? empty : {}) } });
    });
    await ui.open(path);
    const further = page.locator('.list-end').getByRole('button', { name: 'Continue' });
    await further.waitFor();
    await page.getByText('Searched back to').waitFor();
    // Frames in which an observer of the end of the list would have called back.
    await page.evaluate(FRAMES);
    t.equal(asked, 3, 'a page without a row waits for a person');
    const shown = page.getByRole(row).filter({ hasText: /many/ });
    t.equal(await shown.count(), 2);
    await ui.check(t, `${of} of a search that paused`);
    await further.click();
    await shown.nth(51).waitFor();
    await page.unrouteAll();
  }
});

t.test('says that counts failed, and counts again', async (t) => {
  ui.provoked.add(503);
  await page.route(/\/(stats|facets)\?/, (route) => route.fulfill(REFUSAL));
  await ui.open('/traces?q=name:beta');
  await rows().filter({ hasText: 'beta' }).waitFor();
  const places = [
    page.getByRole('figure', { name: 'Traces over time' }),
    page.getByRole('region', { name: 'Filters' }).getByRole('group').filter({ hasText: 'State' }),
  ];
  for (const place of places) await place.getByText('The store is away.').waitFor();
  await ui.check(t, 'counts that failed');
  await onPhone(page, () => ui.check(t, 'counts that failed on a phone'));
  await page.unrouteAll();
  for (const place of places) await place.getByRole('button', { name: 'Count again' }).click();
  await places[0]?.locator('figcaption').getByText('1 trace').waitFor();
  await places[1]?.getByRole('button', { name: 'finished 1' }).waitFor();
});

t.test('shows the message of the daemon and a retry when it fails', async (t) => {
  await page.route('**/traces?**', (route) => route.fulfill(REFUSAL));
  await ui.open('/traces');
  await page.getByRole('alert').getByText('The store is away.').waitFor();
  await page.unroute('**/traces?**');
  await page.getByRole('button', { name: 'Retry' }).click();
  await rows().first().waitFor();
  ui.errors.length = 0;
  t.pass('the list is there after a retry');
});

t.test('a small cost shows in full, and a number without room ends with dots', async (t) => {
  const cost = { total: 0.000_000_42 };
  await store([{ ...traceOf({ name: 'tiny', hoursAgo: 24 * 10, ms: 90 * 86_400_000 }), cost }]);
  const of = (column: string) => table.locator(`td.cell-${column} .cut`);
  for (const width of [1_008, 1_440]) {
    await page.setViewportSize({ width, height: 900 });
    await ui.open('/traces?q=name:tiny&range=30d');
    const small = of('cost');
    await small.filter({ hasText: /^<\$0\.000001$/ }).waitFor();
    t.equal(await small.getAttribute('title'), '$0.00000042');
    const isCut = await small.evaluate((each) => each.scrollWidth > each.clientWidth);
    t.notOk(isCut, String(width));
  }
  t.equal(await of('latency').getAttribute('title'), await of('latency').textContent());
  await store([traceOf({ name: 'minutes', ms: 95_000 })]);
  await ui.open('/traces?q=name:minutes');
  const minutes = of('latency').filter({ hasText: '1 min 35 s' });
  await minutes.waitFor();
  t.notOk(await minutes.evaluate((each) => each.scrollWidth > each.clientWidth), 'minutes');
  await ui.open('/traces?q=name:tiny&range=30d');
  await of('latency').waitFor();
  const LOOK = 'getComputedStyle(document.querySelector("td.cell-latency .cut")).textOverflow';
  t.equal(await page.evaluate(LOOK), 'ellipsis');
});
