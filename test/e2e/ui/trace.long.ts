import { readFileSync } from 'node:fs';
import type { Locator } from 'playwright-core';
import t from 'tap';
import { until } from '../../helper/until.ts';
import { onPhone, startUi, tabTo } from './rig.ts';
import { AGENT, BAD, HOSTILE_EVENTS, LONG_LATENCIES } from './trace-events.ts';

t.setTimeout(600_000);

const ui = await startUi(t);
const { page } = ui;
// The page of a trace that is not there.
ui.provoked.add(404);

await ui.sendEvents([...AGENT, ...LONG_LATENCIES, ...BAD]);
for (const event of HOSTILE_EVENTS) await ui.sendEvents([event]);
await ui.daemon.call({
  method: 'POST',
  path: '/api/v1/traces/agent/scores',
  headers: { authorization: `Bearer ${ui.daemon.key}`, 'content-type': 'application/json' },
  body: JSON.stringify({ name: 'helpful', value: 0.9 }),
});
await ui.daemon.call({ path: '/api/v1/traces/hostile?wait=20s' });

const { projects } = await ui.admin<{ projects: { id: string }[] }>('GET', '/projects');
const projectId = projects[0]?.id ?? '';
const tree = page.getByRole('tree', { name: 'Observations of the trace' });
const item = (name: string) => tree.getByRole('treeitem', { name });
const panel = page.getByRole('region', { name: 'Observation', exact: true });
const tab = (name: string) => panel.getByRole('tab', { name }).click();
const heading = () => panel.getByRole('heading', { level: 2 }).textContent();

t.test('shows the values of the trace, its tree and its root', async (t) => {
  await ui.open('/traces/agent');
  t.equal(await page.getByRole('heading', { level: 1 }).textContent(), 'assistant');
  const head = page.locator('.trace-head');
  for (const text of ['4.00 s', '1,050', '1,000 in, 50 out', 'ada', 's-1', 'acme', 'helpful']) {
    await head.getByText(text, { exact: false }).first().waitFor();
  }
  const user = head.getByRole('link', { name: 'ada' });
  t.equal(await user.getAttribute('href'), '/users/ada');
  await item('broken , tool Error 180 ms').waitFor();
  t.equal(await tree.getByRole('treeitem').count(), 5);
  t.match(await item('assistant').getAttribute('aria-level'), '1');
  t.equal(await item('on the critical path').count(), 4, 'all but the tool beside the slow one');
  t.equal(await heading(), 'assistant', 'the root shows first');
  await panel.getByText('Weather?').waitFor();
  await ui.check(t, 'trace');
});

t.test('leads from a value to the traces that have it', async (t) => {
  const head = page.locator('.trace-head');
  const search = page.getByRole('searchbox', { name: 'Search traces' });
  const row = page.getByRole('table', { name: 'Traces' }).getByRole('link', { name: 'assistant' });
  const leads = async (link: Locator, query: string): Promise<void> => {
    await link.click();
    await row.waitFor();
    t.equal(await search.inputValue(), query);
    await page.goBack();
    await tree.waitFor();
  };
  await ui.open('/traces/agent?observation=llm');
  await leads(head.getByRole('link', { name: 'acme' }), 'custom.tenant:acme');
  await leads(head.getByRole('link', { name: '0.9' }), 'score.helpful:0.9');
  await leads(panel.getByRole('link', { name: 'gpt-4.1' }), 'model:gpt-4.1');
  await tab('Attributes');
  await leads(
    panel.getByRole('definition').getByRole('link', { name: 'gpt-4.1' }),
    'model:gpt-4.1',
  );
  await tab('Messages');
});

t.test('adds a score and changes one, by keys', async (t) => {
  const labels = page.locator('.labels');
  const dialog = page.getByRole('dialog', { name: 'Scores of the trace' });
  const name = dialog.getByRole('textbox', { name: 'Name' });
  const row = (text: string) => dialog.getByRole('row').filter({ hasText: text });
  await ui.open('/traces/agent?observation=llm');
  await page.getByRole('button', { name: 'Scores' }).press('Enter');
  await row('helpful').getByText('0.9').waitFor();
  await name.focus();
  await page.keyboard.type('  verdict');
  await tabTo(page, 'Value');
  await page.keyboard.type('good');
  await page.keyboard.press('Enter');
  await dialog.getByText('give a number such as 0.8').waitFor();
  await dialog.getByRole('radio', { name: 'Number' }).press('ArrowLeft');
  await tabTo(page, 'Value');
  await page.keyboard.type('7');
  await dialog.getByLabel('Comment').fill('short\nand right');
  await dialog.getByRole('checkbox').check();
  await page.keyboard.press('Enter');
  await row('verdict').getByText('of observation llm').waitFor();
  await labels.getByText('score verdict').waitFor();
  t.equal(await name.inputValue(), '', 'the form is empty again');
  t.equal(await page.evaluate('document.activeElement.labels?.[0]?.textContent'), 'Name');
  await ui.check(t, 'scores');

  await row('verdict').getByRole('button', { name: 'Edit' }).press('Enter');
  t.equal(await dialog.getByRole('radio', { name: 'Text' }).isChecked(), true, 'a text of digits');
  await dialog.getByRole('textbox', { name: 'Value' }).fill('8');
  await dialog.getByRole('button', { name: 'Save score' }).press('Enter');
  await row('verdict').getByRole('cell', { name: '8', exact: true }).waitFor();
  await row('verdict').getByText('and right').waitFor();
  t.equal(await row('verdict').count(), 1);
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'detached' });
  const { scores } = await ui.admin<{ scores: object[] }>(
    'GET',
    `/projects/${projectId}/traces/agent/scores`,
  );
  t.match(
    scores.filter((score) => 'name' in score && score.name === 'verdict'),
    [{ value: '8', observation_id: 'llm', comment: 'short\nand right', source: 'web ui' }],
  );
});

t.test('goes through the tree by keys', async (t) => {
  await ui.open('/traces/agent');
  await tree.focus();
  await page.keyboard.press('e');
  await page.waitForURL(/observation=broken/);
  t.equal(await heading(), 'broken', 'the next error');
  await page.keyboard.press('s');
  await page.waitForURL(/observation=slow/);
  await page.keyboard.press('ArrowLeft');
  await page.waitForURL(/observation=tools/);
  await page.keyboard.press('ArrowLeft');
  t.equal(await item('tools').getAttribute('aria-expanded'), 'false');
  t.equal(await tree.getByRole('treeitem').count(), 3);
  await page.keyboard.press('e');
  await page.waitForURL(/observation=broken/);
  t.equal(await tree.getByRole('treeitem').count(), 5, 'a jump opens what hides the row');
  await page.keyboard.press('Home');
  await page.waitForURL(/observation=root/);
  await page.keyboard.press('End');
  await page.waitForURL(/observation=broken/);
  await page.reload();
  await item('broken').waitFor();
  t.equal(await heading(), 'broken', 'the address has the observation');
});

t.test('offers to collapse only what can be collapsed', async (t) => {
  const of = { trace_id: 'flat', operation: 'finish', kind: 'llm', status: 'success' };
  await ui.sendEvents([
    { ...of, id: 'flat-root', name: 'flat root' },
    { ...of, id: 'flat-leaf', name: 'flat leaf', parent_id: 'flat-root' },
  ]);
  await ui.daemon.call({ path: '/api/v1/traces/flat?wait=20s' });
  await ui.open('/traces/flat');
  await item('flat leaf').waitFor();
  const all = page.getByRole('button', { name: /^(Collapse|Expand) all$/ });
  t.equal(await all.count(), 0, 'the root stays open');
  await tree.press('ArrowLeft');
  await item('flat leaf').waitFor({ state: 'detached' });
  await all.click();
  await item('flat leaf').waitFor();
  await ui.open('/traces/agent');
  await all.click();
  await item('broken').waitFor({ state: 'detached' });
  t.equal(await all.textContent(), 'Expand all');
});

t.test('keys go on from the row that hides the chosen one', async (t) => {
  await ui.open('/traces/agent?observation=broken');
  await item('broken').waitFor();
  await page.getByRole('button', { name: 'Collapse all' }).click();
  await item('broken').waitFor({ state: 'detached' });
  const active = `document.getElementById(document.querySelector('[role=tree]')
    .getAttribute('aria-activedescendant'))?.querySelector('.row-text').textContent`;
  t.equal(await page.evaluate(active), 'tools');
  await tree.press('ArrowRight');
  await item('broken').waitFor();
});

t.test('shows the row that a filter found among its neighbours', async (t) => {
  const of = { trace_id: 'many', operation: 'finish', kind: 'llm', status: 'success' };
  const children = Array.from({ length: 300 }, (_, index) => ({
    ...{ ...of, id: `many-${index}`, parent_id: 'many-root', name: `child ${index}` },
  }));
  await ui.sendEvents([{ ...of, id: 'many-root', name: 'many root' }, ...children]);
  await ui.daemon.call({ path: '/api/v1/traces/many?wait=20s' });
  await ui.open('/traces/many');
  const filter = page.getByRole('searchbox', { name: 'Filter observations' });
  await filter.fill('child 250');
  await item('child 250').click();
  await filter.fill('');
  await item('child 249').waitFor();
  t.equal(await page.getByText('1 match', { exact: true }).count(), 0);
});

t.test('filters the tree', async (t) => {
  await ui.open('/traces/agent');
  const filter = page.getByRole('searchbox', { name: 'Filter observations' });
  await filter.fill('TIMEOUT');
  await page.getByText('1 match', { exact: true }).waitFor();
  t.equal(await tree.getByRole('treeitem').count(), 3, 'the match and what is above it');
  await filter.fill('nothing at all');
  await page.getByText('No observation matches.').waitFor();
  await ui.check(t, 'filter');
});

t.test('shows a conversation with calls, results and images', async (t) => {
  await ui.open('/traces/agent?observation=llm');
  await panel.getByText('Be brief.').waitFor();
  const messages = panel.locator('.message');
  t.equal(await messages.count(), 4, 'the result is beside its call');
  await messages.nth(2).getByText('rain, 12 °C').waitFor();
  t.equal(await panel.getByRole('img', { name: 'From the message' }).count(), 0);
  await panel.getByRole('button', { name: 'Show image' }).click();
  const image = panel.getByRole('img', { name: 'From the message' });
  await image.waitFor();
  t.match(await image.getAttribute('src'), /^data:image\/png;base64,/);
  await ui.check(t, 'messages');
});

t.test('shows a result in JSON by its members', async (t) => {
  const content = JSON.stringify({ state: 'shipped', items: 2 });
  const of = { trace_id: 'json', operation: 'finish', kind: 'llm', status: 'success' };
  const call = { id: 'call_1', function: { name: 'lookup', arguments: '{}' } };
  await ui.sendEvents([
    {
      ...{ ...of, id: 'json-root', name: 'lookup' },
      inputs: {
        messages: [
          { role: 'user', content },
          { role: 'assistant', content: null, tool_calls: [call] },
          { role: 'tool', tool_call_id: 'call_1', content },
        ],
      },
      outputs: { role: 'assistant', content: 'Two items.' },
    },
  ]);
  await ui.daemon.call({ path: '/api/v1/traces/json?wait=20s' });
  await ui.open('/traces/json');
  const messages = panel.locator('.message');
  await messages.nth(1).locator('.tool-result').getByText('shipped', { exact: true }).waitFor();
  await messages.nth(0).getByText(content, { exact: true }).waitFor();
  await ui.check(t, 'a result in JSON');
});

t.test('shows the attachments of a run', async (t) => {
  const pixel = Uint8Array.from(
    Buffer.from(
      'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
      'base64',
    ),
  );
  const form = new FormData();
  const run = { id: 'with-files', name: 'with files', run_type: 'chain', inputs: { q: 1 } };
  const part = (type: string, content: string | Uint8Array<ArrayBuffer>) =>
    new Blob([content], { type });
  form.append('post.with-files', part('application/json', JSON.stringify(run)));
  form.append('attachment.with-files.pixel', part('image/png', pixel));
  form.append('attachment.with-files.<b>page</b>', part('text/html', '<script>alert(1)</script>'));
  const { base, key } = ui.daemon;
  const sent = await fetch(`${base}/runs/multipart`, {
    ...{ method: 'POST', body: form, headers: { authorization: `Bearer ${key}` } },
  });
  t.equal(sent.status, 202);
  await ui.daemon.call({ path: '/api/v1/traces/with-files?wait=20s' });
  await ui.open('/traces/with-files');
  const files = panel.getByRole('listitem');
  await files.getByRole('link', { name: 'pixel' }).waitFor();
  t.equal(await files.count(), 2);
  await panel.getByText('text/html, 25 B').waitFor();
  t.equal(await panel.getByRole('button', { name: 'Show image' }).count(), 1, 'no image of a page');
  await panel.getByRole('button', { name: 'Show image' }).click();
  const image = panel.getByRole('img', { name: 'pixel' });
  await image.waitFor();
  await until(
    async () => (await image.evaluate((img: { naturalWidth: number }) => img.naturalWidth)) === 1,
  );
  const download = page.waitForEvent('download');
  await files.getByRole('link', { name: '<b>page</b>' }).click();
  t.equal(readFileSync(await (await download).path(), 'utf8'), '<script>alert(1)</script>');
  await ui.check(t, 'attachments');
});

t.test('shows attributes, the exception, JSON and raw events', async (t) => {
  await ui.open('/traces/agent?observation=broken');
  await tab('Attributes');
  await panel.getByText('at price.ts:41').waitFor();
  await panel.getByText('+80 ms').waitFor();
  await ui.check(t, 'attributes');
  await tab('JSON');
  const json = panel.getByRole('tree', { name: 'Payloads' });
  await json.waitFor();
  await panel.getByRole('searchbox', { name: 'Search in JSON' }).fill('attempt');
  await page.keyboard.press('Enter');
  await panel.getByText('1 of 1').waitFor();
  t.match(await json.locator('.is-active').textContent(), /attempt: 2/);
  await ui.check(t, 'JSON');
  await tab('Raw event');
  const raw = panel.getByRole('tree', { name: 'Raw event' });
  await raw.getByText('"TimeoutError"').waitFor();
  await ui.check(t, 'raw event');
});

t.test('a document that is deep and long stays usable', async (t) => {
  await ui.open('/traces/bad?observation=document');
  await tab('JSON');
  await panel.getByRole('searchbox', { name: 'Search in JSON' }).fill('needle');
  await page.keyboard.press('Enter');
  const json = panel.getByRole('tree', { name: 'Payloads' });
  await json.getByText('"needle"').waitFor();
  await panel.getByRole('searchbox', { name: 'Search in JSON' }).fill('yyyyend');
  await page.keyboard.press('Enter');
  await json.focus();
  await page.keyboard.press('Enter');
  await page.keyboard.press('End');
  t.ok((await json.getByRole('treeitem').count()) < 80, 'only the rows in view are there');
  await tab('Messages');
  await panel.getByRole('button', { name: /Show all/ }).waitFor();
  await tab('Attributes');
  await panel.getByRole('tree', { name: 'Metadata' }).waitFor();
});

t.test('wrong times and parents keep their place in the tree', async (t) => {
  await ui.open('/traces/bad');
  await tree.getByRole('treeitem').nth(5).waitFor();
  t.equal(await tree.getByRole('treeitem').count(), 6);
  t.match(await tree.locator('.row-orphan').first().getAttribute('aria-label'), /cycle|parent/);
  t.equal(await tree.locator('.bar.is-reversed').count(), 1);
  t.equal(await tree.locator('.lane-empty').count(), 2);
  await ui.check(t, 'wrong times');
});

t.test('latencies are whole; a very long one ends with an ellipsis and has a title', async (t) => {
  const TEXTS = `[...document.querySelectorAll('[role=treeitem]')].map((row) => {
    const cell = row.querySelector('.row-number');
    const isWhole = cell.scrollWidth <= cell.clientWidth;
    return isWhole ? cell.textContent : getComputedStyle(cell).textOverflow + ' ' + cell.title;
  })`;
  await ui.open('/traces/long');
  await item('90 s').waitFor();
  const texts = ['1 min 30 s', '59 min 59 s', '1 h 30 min', '23 h 59 min', '104,166 d 16 h'];
  t.same(await page.evaluate(TEXTS), [...texts.slice(0, -1), `ellipsis ${texts.at(-1)}`]);
});

t.test('the numbers of a narrow tree stay inside of it', async (t) => {
  await ui.open('/traces/agent');
  await item('assistant').waitFor();
  const right = async (selector: string): Promise<number> => {
    const box = await page.locator(selector).last().boundingBox();
    return box === null ? Number.NaN : box.x + box.width;
  };
  // The narrowest tree beside a panel, and the narrowest one with tokens and cost.
  for (const width of [1_001, 1_251]) {
    await page.setViewportSize({ width, height: 900 });
    t.ok((await right('.row-number:visible')) <= (await right('.tree')), String(width));
  }
  t.equal(await item('assistant').locator('.row-number:visible').count(), 3);
  await page.setViewportSize({ width: 1_440, height: 900 });
});

t.test('hostile texts stay texts in every field', async (t) => {
  await ui.open('/traces/hostile');
  for (const index of HOSTILE_EVENTS.keys()) {
    await tree.focus();
    await page.keyboard.press(index === 0 ? 'Home' : 'ArrowDown');
    await page.waitForURL(new RegExp(`observation=hostile-${index}$`));
    for (const name of ['Messages', 'JSON', 'Attributes', 'Raw event']) {
      await tab(name);
      await panel.getByRole('tabpanel').locator('.loading').waitFor({ state: 'detached' });
    }
    t.equal(await page.evaluate('globalThis.hacked'), undefined);
  }
  for (const name of ['Messages', 'Attributes']) {
    await tab(name);
    await ui.check(t, `hostile ${name}`);
    await onPhone(page, () => ui.check(t, `hostile ${name} on a phone`));
  }
});

t.test('works on a phone', async (t) => {
  await onPhone(page, async () => {
    await ui.open('/traces/agent');
    t.equal(await panel.count(), 0, 'the panel is closed at first');
    await ui.check(t, 'phone');
    await item('chat').click();
    await tab('Messages');
    await panel.getByText('Be brief.').waitFor();
    await ui.check(t, 'phone, observation');
    await page.keyboard.press('Escape');
    await panel.waitFor({ state: 'detached' });
    await page.waitForURL((url) => !url.search.includes('observation'));
    await item('chat').click();
    await panel.waitFor();
    await page.goBack();
    await panel.waitFor({ state: 'detached' });
    await item('chat').waitFor();
    t.match(page.url(), /\/traces\/agent$/, 'Back closes the observation only');
    await ui.open('/traces/agent?observation=llm');
    await panel.getByRole('button', { name: 'Close' }).click();
    await panel.waitFor({ state: 'detached' });
    // The address had the observation.
    await page.waitForURL(/\/traces\/agent$/);
  });
});

t.test('tree and panel have room side by side on a small screen', async (t) => {
  const before = page.viewportSize();
  await page.setViewportSize({ width: 1024, height: 768 });
  await ui.open('/traces/agent');
  await item('assistant').first().waitFor();
  const isCut = (selector: string) =>
    page.evaluate<boolean>(`[...document.querySelectorAll(${JSON.stringify(selector)})]
      .some(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth)`);
  t.notOk(await isCut('[role="tablist"]'), 'every tab is in view');
  t.notOk(await isCut('.row-text'), 'no name is cut');
  await ui.check(t, 'a trace on a small screen');
  if (before !== null) await page.setViewportSize(before);
});

t.test('a trace that runs grows on the page', async (t) => {
  const begun = { operation: 'start', status: 'running', kind: 'agent', trace_id: 'live' };
  const start_time = new Date().toISOString();
  await ui.sendEvents([{ ...begun, id: 'live-root', name: 'running agent', start_time }]);
  await ui.daemon.call({ path: '/api/v1/traces/live?wait=20s' });
  await ui.open('/traces/live');
  await page.locator('.trace-title').getByText('Running', { exact: true }).waitFor();
  const ended = { operation: 'finish', status: 'success', trace_id: 'live' };
  const end_time = new Date().toISOString();
  await ui.sendEvents([
    { ...ended, id: 'live-step', parent_id: 'live-root', name: 'step', kind: 'tool', end_time },
    { ...ended, id: 'live-root', name: 'running agent', kind: 'agent', end_time },
  ]);
  await item('step').waitFor();
  await page.locator('.trace-title').getByText('Success').waitFor();
  t.pass('the step and the end arrived');
});

t.test('the panel reads no payloads again for another observation', async (t) => {
  const usage = { input_tokens: 10, output_tokens: 5 };
  const of = { trace_id: 'counts', usage, start_time: new Date().toISOString() };
  const root = { ...of, id: 'counts-root', name: 'counts root', kind: 'agent' };
  await ui.sendEvents([{ ...root, operation: 'start', status: 'running', inputs: 'asked' }]);
  await ui.daemon.call({ path: '/api/v1/traces/counts?wait=20s' });
  let readings = 0;
  page.on('request', (each) => {
    if (each.url().includes('/observations/counts-root')) readings += 1;
  });
  await ui.open('/traces/counts');
  await panel.getByText('asked').waitFor();
  const child = { ...of, id: 'counts-call', parent_id: 'counts-root', name: 'counts call' };
  await ui.sendEvents([{ ...child, operation: 'finish', status: 'success', kind: 'llm' }]);
  await item('counts call').waitFor();
  // The child repeats the usage.
  await item('counts root').locator('.row-number.muted').filter({ hasText: '15' }).waitFor();
  await page.waitForResponse((each) => each.url().includes('fields=tree'));
  t.equal(readings, 1);
});

t.test('says that a text is empty, or only white space', async (t) => {
  const event = { operation: 'finish', kind: 'chain', status: 'success', trace_id: 'blank' };
  const messages = [{ role: 'user', content: [{ type: 'text', text: '' }] }];
  await ui.sendEvents([
    { ...event, id: 'blank-root', name: 'blank', inputs: '', outputs: ' \n' },
    { ...event, id: 'blank-members', parent_id: 'blank-root', inputs: { asked: '' } },
    { ...event, id: 'blank-message', parent_id: 'blank-root', inputs: { messages } },
  ]);
  await ui.daemon.call({ path: '/api/v1/traces/blank?wait=20s' });
  await ui.open('/traces/blank');
  await tab('Messages');
  const values = panel.locator('.in-and-out');
  await values.getByText('Empty text', { exact: true }).waitFor();
  await values.getByText('White space only', { exact: true }).waitFor();
  for (const id of ['blank-members', 'blank-message']) {
    await ui.open(`/traces/blank?observation=${id}`);
    await panel.getByText('Empty text', { exact: true }).waitFor();
  }
  await ui.check(t, 'texts of which nothing shows');
});

t.test('goes on from a value whose lines were closed by a key', async (t) => {
  const text = Array.from({ length: 60 }, (_, index) => `line ${index}`).join('\n');
  const event = { operation: 'finish', kind: 'llm', status: 'success', trace_id: 'lines' };
  await ui.sendEvents([{ ...event, id: 'lines-root', name: 'lines', inputs: { text } }]);
  await ui.daemon.call({ path: '/api/v1/traces/lines?wait=20s' });
  await ui.open('/traces/lines');
  await tab('JSON');
  const json = panel.getByRole('tree', { name: 'Payloads' });
  const active = json.getByRole('treeitem', { selected: true });
  await json
    .getByRole('treeitem')
    .filter({ hasText: /^text: / })
    .click();
  await json.press('PageDown');
  await json.press('PageDown');
  await active.filter({ hasText: 'line ' }).waitFor();
  await json.press('ArrowLeft');
  await active.filter({ hasText: /^text: / }).waitFor();
  t.equal(await active.getAttribute('aria-expanded'), 'false');
  await json.press('ArrowUp');
  await active.filter({ hasText: 'inputs' }).waitFor();
  await tab('Messages');
});

t.test('keeps what a person opened when a trace that runs is read again', async (t) => {
  const start_time = new Date().toISOString();
  const begun = { operation: 'start', status: 'running', kind: 'agent', trace_id: 'reading' };
  const inputs = { list: Array.from({ length: 300 }, (_, index) => `value ${index}`) };
  await ui.sendEvents([{ ...begun, id: 'reading-root', name: 'reader', start_time, inputs }]);
  await ui.daemon.call({ path: '/api/v1/traces/reading?wait=20s' });
  await ui.open('/traces/reading');
  await tab('JSON');
  const list = panel.getByRole('treeitem').filter({ hasText: 'list' });
  await list.click();
  await panel.getByText('"value 1"').waitFor();
  const isTree = (url: string) => url.includes('fields=tree');
  await page.waitForResponse((answer) => isTree(answer.url()));
  await page.waitForResponse((answer) => isTree(answer.url()));
  t.equal(await list.getAttribute('aria-expanded'), 'true');
  await tab('Messages');
});

t.test('shows metadata that arrives alone', async (t) => {
  const begun = { operation: 'start', status: 'running', kind: 'agent', trace_id: 'tagged' };
  const root = {
    ...begun,
    id: 'tagged-root',
    name: 'tagged',
    start_time: new Date().toISOString(),
  };
  await ui.sendEvents([{ ...root, inputs: { q: 1 } }]);
  await ui.daemon.call({ path: '/api/v1/traces/tagged?wait=20s' });
  await ui.open('/traces/tagged');
  await tab('JSON');
  const json = panel.getByRole('tree', { name: 'Payloads' });
  await json.getByText('inputs').waitFor();
  await ui.sendEvents([{ ...root, metadata: { verdict: 'approved' } }]);
  await json.getByText('"approved"').waitFor();
  await tab('Messages');
  t.pass('the panel is up to date');
});

t.test('downloads the trace in OTLP', async (t) => {
  await ui.open('/traces/agent');
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('link', { name: 'Download' }).click(),
  ]);
  t.equal(download.suggestedFilename(), 'agent.json');
  const request = JSON.parse(readFileSync(await download.path(), 'utf8'));
  t.ok(request.resourceSpans.length > 0);
});

t.test('deletes the trace, and shows the receipt', async (t) => {
  await ui.open('/traces/bad');
  await page.getByRole('button', { name: 'Delete trace' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByText('It cannot be undone.').waitFor();
  await ui.check(t, 'deletion');
  await dialog.getByRole('button', { name: 'Delete trace' }).click();
  await page.getByRole('dialog', { name: 'The trace is erased' }).waitFor({ timeout: 90_000 });
  await dialog.getByRole('tree', { name: 'Receipt' }).getByText('ids_hash').waitFor();
  await ui.check(t, 'receipt');
  await dialog.getByRole('button', { name: 'Close' }).click();
  await page.waitForURL(/\/traces(\?|$)/);
  await ui.open('/traces/bad');
  await page.getByRole('heading', { name: 'The trace is not here' }).waitFor();
  const asked = page.waitForResponse((answer) => answer.url().includes('/traces/bad'));
  await page.getByRole('button', { name: 'Look again' }).click();
  t.equal((await asked).status(), 404);
  await ui.check(t, 'no trace');
});

t.test('shows the receipt of a trace that ran', async (t) => {
  const start_time = new Date().toISOString();
  const begun = { operation: 'start', status: 'running', kind: 'agent', trace_id: 'endless' };
  await ui.sendEvents([{ ...begun, id: 'endless-root', name: 'endless agent', start_time }]);
  await ui.daemon.call({ path: '/api/v1/traces/endless?wait=20s' });
  await ui.open('/traces/endless');
  await page.getByRole('button', { name: 'Delete trace' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('button', { name: 'Delete trace' }).click();
  // The page reads a trace that runs again, and no longer finds it.
  await page.getByRole('heading', { name: 'The trace is not here' }).waitFor({ state: 'attached' });
  await page.getByRole('dialog', { name: 'The trace is erased' }).waitFor({ timeout: 90_000 });
  await dialog.getByRole('tree', { name: 'Receipt' }).getByText('ids_hash').waitFor();
  await dialog.getByRole('button', { name: 'Close' }).click();
  await page.waitForURL(/\/traces(\?|$)/);
  t.pass('the dialog stayed');
});

t.test('opens a page that threw an error again by its retry', async (t) => {
  const malformed = '**/traces/agent?fields=tree';
  await page.route(malformed, (route) => route.fulfill({ json: { trace: {} } }));
  await page.goto(`${ui.daemon.adminBase}/traces/agent`);
  const retry = page.getByRole('alert').getByRole('button', { name: 'Retry' });
  await retry.waitFor();
  await page.unroute(malformed);
  await retry.click();
  await item('assistant').waitFor();
  t.equal(await retry.count(), 0);
});
