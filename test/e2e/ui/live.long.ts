import t from 'tap';
import { until } from '../../helper/until.ts';
import { onPhone } from './rig.ts';
import { REFUSAL, startTraces } from './traces-rig.ts';

t.setTimeout(600_000);

/** The list of traces while it is live. */

const ui = await startTraces(t);
const { page, rows, store, traceOf } = ui;

/** Waits for an expression of the page. The policy of the pages forbids `waitForFunction` to evaluate a text again. */
function isTrue(expression: string): Promise<void> {
  return until(() => page.evaluate<boolean>(expression));
}

t.test('shows traces as they arrive', async (t) => {
  await ui.open('/traces');
  await rows().first().waitFor();
  await page.getByRole('switch', { name: 'Live' }).click();
  await page.waitForURL(/live=1/);
  // The stream begins after the address changed: traces are sent until one arrives.
  const arrived = rows().filter({ hasText: 'just now' }).first();
  for (let attempt = 0; attempt < 40 && (await arrived.count()) === 0; attempt += 1) {
    await ui.sendEvents([traceOf({ name: 'just now', hoursAgo: 0 })]);
    await arrived.waitFor({ timeout: 1_500 }).catch(() => {});
  }
  t.equal(await rows().first().locator('.cell-name').textContent(), 'just now');
});

t.test('Live begins with the traces that arrived after the list was read', async (t) => {
  await ui.open('/traces');
  await rows().first().waitFor();
  await store([traceOf({ name: 'before live', hoursAgo: 0 })]);
  t.equal(await rows().filter({ hasText: 'before live' }).count(), 0);
  await page.getByRole('switch', { name: 'Live' }).click();
  await rows().filter({ hasText: 'before live' }).waitFor();
});

t.test('opens a stream again that the daemon refused, and reads the list', async (t) => {
  ui.provoked.add(429);
  const refusal = { code: 'too_many_reads', message: 'Too many streams.' };
  await page.route('**/traces/stream**', (route) => route.fulfill({ status: 429, json: refusal }));
  await ui.open('/traces?live=1');
  const broken = page.getByText('The stream is interrupted.');
  await broken.waitFor();
  await ui.check(t, 'an interrupted stream');
  await onPhone(page, () => ui.check(t, 'an interrupted stream on a phone'));
  await store([traceOf({ name: 'in the break', hoursAgo: 0 })]);
  await page.unrouteAll();
  await rows().filter({ hasText: 'in the break' }).waitFor();
  await broken.waitFor({ state: 'detached' });
});

t.test('follows the stream while the page is visible', async (t) => {
  const show = (state: string) =>
    page.evaluate(`Object.defineProperty(document, 'visibilityState', { value: '${state}', configurable: true });
      document.dispatchEvent(new Event('visibilitychange'))`);
  const isStream = (each: { url(): string }) => each.url().includes('/traces/stream');
  const opened = page.waitForResponse(isStream);
  await ui.open('/traces?live=1');
  await opened;
  const ended = page.waitForEvent('requestfailed', isStream);
  await show('hidden');
  await ended;
  const again = page.waitForResponse(isStream);
  await show('visible');
  t.equal((await again).status(), 200);
});

t.test('the histogram and the counts of the filters follow a live list', async (t) => {
  await page.clock.install();
  await ui.open('/traces?live=1');
  // The time to the next reading begins with each answer.
  const state = page.getByRole('group').filter({ hasText: 'State' });
  await state.getByRole('button', { name: /^finished / }).waitFor();
  const figure = page.getByRole('figure', { name: 'Traces over time' });
  await figure
    .locator('figcaption')
    .filter({ hasText: /\d traces/ })
    .waitFor();
  const asked = ['field=state', '/stats?'].map((part) =>
    page.waitForResponse((answer) => answer.url().includes(part)),
  );
  await page.clock.runFor(31_000);
  for (const each of asked) t.equal((await each).status(), 200);
  await page.clock.resume();
});

t.test('a trace leaves a live list when it matches the query no more', async (t) => {
  const runs = (name: string) => ({ ...traceOf({ name, hoursAgo: 0 }), operation: 'start' });
  const running = ['goes on', 'ends soon', 'is erased'].map((name) => ({
    ...runs(name),
    ...{ status: 'running', end_time: undefined },
  }));
  await store(running);
  let readings = 0;
  page.on('request', (each) => {
    if (/api.*\/traces\?/.test(each.url())) readings += 1;
  });
  await ui.open('/traces?live=1&q=state:running');
  await rows().filter({ hasText: 'ends soon' }).waitFor();
  await store([{ ...running[1], operation: 'finish', status: 'success' }]);
  await rows().filter({ hasText: 'ends soon' }).waitFor({ state: 'detached' });
  const { projects } = await ui.admin<{ projects: { id: string }[] }>('GET', '/projects');
  const q = 'name:"is erased"';
  await ui.admin('POST', `/projects/${projects[0]?.id}/erasures`, { q });
  await rows().filter({ hasText: 'is erased' }).waitFor({ state: 'detached' });
  t.equal(await rows().filter({ hasText: 'goes on' }).count(), 1);
  t.equal(readings, 2, 'one by the page, and one when the stream began');
});

t.test('a trace that leaves while a page is on its way is not in the live list', async (t) => {
  const running = { ...traceOf({ name: 'leaves early', hoursAgo: 0 }), operation: 'start' };
  await store([{ ...running, status: 'running', end_time: undefined }]);
  await page.addInitScript(`globalThis.EventSource = class extends EventSource {
    constructor(url) {
      super(url);
      this.addEventListener('left', () => { globalThis.hasLeft = true; });
    }
  }`);
  const { promise, resolve } = Promise.withResolvers<void>();
  let readings = 0;
  await page.route(/\/api\/.*\/traces\?/, async (route) => {
    readings += 1;
    // The list is read again when the stream has begun; both answers have the trace.
    const response = await route.fetch();
    await promise;
    await route.fulfill({ response }).catch(() => undefined);
  });
  await page.goto(`${ui.daemon.adminBase}/traces?live=1&q=name:"leaves early" state:running`);
  await until(() => readings === 2);
  await store([{ ...running, operation: 'finish', status: 'success' }]);
  await isTrue('globalThis.hasLeft === true');
  // The list takes changes in each half second.
  await page.evaluate('new Promise((resolve) => setTimeout(resolve, 600))');
  resolve();
  await page.getByRole('heading', { name: 'No trace matches' }).waitFor();
  t.equal(await rows().count(), 0);
  await page.unrouteAll();
});

t.test('a live list with many changes is read again until that succeeds', async (t) => {
  ui.provoked.add(503);
  const batch = (name: string) =>
    Array.from({ length: 600 }, () => traceOf({ name: `flood ${name}`, hoursAgo: 0 }));
  await ui.open('/traces?live=1&q=name:flood*');
  await store([traceOf({ name: 'flood begins', hoursAgo: 0 })]);
  await rows().filter({ hasText: 'flood begins' }).waitFor();
  await page.route(/\/api\/.*\/traces\?/, (route) => route.fulfill(REFUSAL));
  await store(batch('one'));
  await store(batch('two'));
  const refused = page.getByText('The store is away.');
  await refused.waitFor();
  await page.unrouteAll();
  await refused.waitFor({ state: 'detached' });
  await rows().filter({ hasText: 'flood two' }).first().waitFor();
  t.ok((await rows().count()) < 1_000, 'the changes are in the pages');
});

t.test('a live list repeats a reading that failed after the daemon left out changes', async (t) => {
  ui.provoked.add(503);
  await page.addInitScript(`globalThis.EventSource = class extends EventSource {
    constructor(url) {
      super(url);
      globalThis.stream = this;
    }
  }`);
  await ui.open('/traces?live=1');
  await rows().first().waitFor();
  await isTrue('globalThis.stream?.readyState === EventSource.OPEN');
  await page.route(/\/api\/.*\/traces\?/, (route) => route.fulfill(REFUSAL));
  await page.evaluate("stream.dispatchEvent(new Event('lagged'))");
  const refused = page.getByText('The store is away.');
  await refused.waitFor();
  await page.unrouteAll();
  await refused.waitFor({ state: 'detached' });
  t.ok((await rows().count()) > 0);
});

t.test('a trace leaves a live list when it is older than the range', async (t) => {
  await store([
    traceOf({ name: 'ages out', hoursAgo: 0.9 }),
    traceOf({ name: 'ages later', hoursAgo: 0 }),
  ]);
  await page.clock.install();
  await ui.open('/traces?live=1&range=1h&q=name:ages*');
  await rows().nth(1).waitFor();
  await page.clock.fastForward('10:00');
  await rows().nth(1).waitFor({ state: 'detached' });
  t.same(await rows().locator('.cell-name').allTextContents(), ['ages later']);
  await page.clock.resume();
});

t.test('keeps the pages of a live list when the page is visible again', async (t) => {
  const show = (state: string) =>
    page.evaluate(`Object.defineProperty(document, 'visibilityState', { value: '${state}', configurable: true });
      document.dispatchEvent(new Event('visibilitychange'))`);
  const isStream = (each: { url(): string }) => each.url().includes('/traces/stream');
  const lots = Array.from({ length: 120 }, (_, index) => `lots ${index}`);
  await store(lots.map((name, index) => traceOf({ name, hoursAgo: 2 + index / 1_000 })));
  await ui.open('/traces?live=1&q=name:lots*');
  await rows().nth(49).waitFor();
  await page.locator('.list-end').scrollIntoViewIfNeeded();
  await rows().nth(99).waitFor();
  await page.locator('.list-end').scrollIntoViewIfNeeded();
  await rows().nth(119).waitFor();
  await rows().nth(110).scrollIntoViewIfNeeded();
  const top = await page.evaluate<number>('scrollY');
  await show('hidden');
  await store([traceOf({ name: 'lots and new', hoursAgo: 0 })]);
  const again = page.waitForResponse(isStream);
  await show('visible');
  await again;
  await rows().first().filter({ hasText: 'lots and new' }).waitFor();
  t.equal(await rows().count(), 121);
  t.ok((await page.evaluate<number>('scrollY')) >= top, 'the page is where it was');
});
