import type { Locator } from 'playwright-core';
import t from 'tap';
import { until } from '../../helper/until.ts';
import { onPhone } from './rig.ts';
import { HOUR, REFUSAL, startTraces } from './traces-rig.ts';

t.setTimeout(600_000);

const ui = await startTraces(t);
const { page, rows, store, traceOf } = ui;

/** Pixels of the marked range of a chart. */
const widthOfMark = async (figure: Locator): Promise<number> =>
  (await figure.locator('.u-select').boundingBox())?.width ?? 0;

t.test('adds up the traces, by time and by model', async (t) => {
  await ui.open('/dashboard');
  const models = page.getByRole('table', { name: 'By model' });
  await models.getByRole('row', { name: /claude-sonnet-4-5/ }).waitFor();
  await page.getByRole('figure', { name: 'Tokens by time' }).locator('canvas').waitFor();
  await ui.check(t, 'the dashboard');
  await onPhone(page, () => ui.check(t, 'the dashboard on a phone'));
  await page.getByRole('figure', { name: 'Cost by time' }).locator('canvas').waitFor();
  await page
    .getByRole('figure', { name: 'Time to first token by time' })
    .locator('canvas')
    .waitFor();
  await page.getByRole('tab', { name: 'Project' }).click();
  await page
    .getByRole('table', { name: 'By project' })
    .getByRole('link', { name: 'default' })
    .waitFor();
  await page.getByRole('tab', { name: 'User' }).click();
  await page.getByRole('table', { name: 'By user' }).getByRole('link', { name: 'bob' }).click();
  await page.waitForURL(/traces\?.*q=user%3Abob/);
  await rows().first().waitFor();
  t.same(await rows().locator('.cell-name').allTextContents(), ['gamma']);
});

t.test('reads a chart by the keyboard, and opens the list of a time of it', async (t) => {
  await ui.open('/dashboard?range=24h');
  const figure = page.getByRole('figure', { name: 'Tokens by time' });
  const periods = figure.getByRole('slider', { name: 'Period of Tokens by time' });
  await periods.focus();
  t.match(await periods.getAttribute('aria-valuetext'), /^The whole range: Input \S+, Output \S+$/);
  await page.keyboard.press('End');
  const ONE = /^\d{4}-\d\d-\d\d \d\d:00 UTC$/;
  await figure.locator('figcaption').getByText(ONE).waitFor();
  t.match(await periods.getAttribute('aria-valuetext'), /UTC: Input [\d,]+, Output [\d,]+$/);
  for (const key of ['ArrowLeft', 'Shift+ArrowLeft']) await page.keyboard.press(key);
  await figure
    .locator('figcaption')
    .getByText(/ UTC – .* UTC$/)
    .waitFor();
  // The mark is drawn after the caption.
  await until(async () => (await widthOfMark(figure)) > 0);
  await ui.check(t, 'a chart that is marked');
  await onPhone(page, () => ui.check(t, 'a chart that is marked, on a phone'));
  await page.keyboard.press('Escape');
  await figure.locator('figcaption').getByText('UTC', { exact: true }).waitFor();
  for (const key of ['End', 'ArrowLeft', 'Shift+ArrowLeft', 'Enter']) {
    await page.keyboard.press(key);
  }
  await page.waitForURL(/\/traces\?.*from=.*to=/);
  const { searchParams } = new URL(page.url());
  const [from, to] = ['from', 'to'].map((name) => Date.parse(searchParams.get(name) ?? ''));
  t.equal((to ?? 0) - (from ?? 0), 2 * HOUR);
});

t.test('names the last of several marked days, and gives way to a pointer', async (t) => {
  await ui.open('/dashboard?range=30d');
  const figure = page.getByRole('figure', { name: 'Tokens by time' });
  const time = figure.locator('.chart-time');
  await figure.getByRole('slider').focus();
  for (const key of ['End', 'Shift+ArrowLeft']) await page.keyboard.press(key);
  const TWO = /^(\d{4}-\d\d-\d\d) \(UTC\) – (\d{4}-\d\d-\d\d) \(UTC\)$/;
  await time.getByText(TWO).waitFor();
  const [, first = '', last = ''] = TWO.exec((await time.textContent()) ?? '') ?? [];
  t.equal(Date.parse(last) - Date.parse(first), 24 * HOUR);
  await figure.locator('.u-over').click();
  await time.getByText(/^\d{4}-\d\d-\d\d \(UTC\)$/).waitFor();
  await until(async () => (await widthOfMark(figure)) === 0);
});

t.test('shows every range whole, inside of the page', async (t) => {
  const CUT = `[...document.querySelectorAll('[role=menuitemradio]')]
    .filter((each) => each.scrollWidth > each.clientWidth || each.getBoundingClientRect().right > innerWidth)
    .map((each) => each.textContent)`;
  const check = async (width: string): Promise<void> => {
    await ui.open('/dashboard');
    await page.getByRole('button', { name: /^Range/ }).click();
    await page.getByRole('menuitemradio', { name: 'Last 24 hours' }).waitFor();
    t.same(await page.evaluate(CUT), [], width);
  };
  await check('wide');
  await onPhone(page, () => check('on a phone'));
});

/** A chart: pixels in the color of its second series, and the width that a text leaves of the axis of values. */
function chartOf(label: string, text: string): Promise<{ pixels: number; room: number }> {
  return page.evaluate(`(async () => {
    await new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)));
    const chart = document.querySelector('figure[aria-label="${label}"]');
    const { width, height } = chart.querySelector('canvas');
    const context = chart.querySelector('canvas').getContext('2d');
    const { data } = context.getImageData(0, 0, width, height);
    const mark = getComputedStyle(chart.querySelector('.chart-mark.hue-2')).backgroundColor;
    const hue = mark.match(/[0-9]+/g).map(Number);
    const isHue = (pixel) => hue.every((part, index) => data[4 * pixel + index] === part);
    const pixels = Array.from({ length: width * height }, (_, index) => index).filter(isHue).length;
    const room = chart.querySelector('.u-over').offsetLeft - context.measureText('${text}').width;
    return { pixels, room };
  })()`);
}

t.test('a chart shows a single value as a dot, and its labels whole', async (t) => {
  await store([traceOf({ name: 'alone', ms: 100_000 })]);
  const check = async (width: string): Promise<void> => {
    await ui.open('/dashboard?q=name:alone');
    const shown = { 'Latency by time': '1 min 40 s', 'Time to first token by time': '100 ms' };
    for (const [label, text] of Object.entries(shown)) {
      await page.getByRole('figure', { name: label }).locator('canvas').waitFor();
      const { pixels, room } = await chartOf(label, text);
      t.ok(pixels > 10, `${label}, ${width}: a dot`);
      t.ok(room > 0, `${label}, ${width}: room for ${text}`);
    }
  };
  await check('wide');
  await onPhone(page, () => check('on a phone'));
});

t.test('says that the times to the first token failed, and reads them again', async (t) => {
  ui.provoked.add(503);
  await page.route(/\/traces\?.*has%3Attft/, (route) => route.fulfill(REFUSAL));
  await ui.open('/dashboard');
  const alert = page.getByRole('alert').filter({ hasText: 'The store is away.' });
  await alert.waitFor();
  await page.getByRole('heading', { name: 'Time to first token' }).waitFor();
  await ui.check(t, 'a chart that failed');
  await page.unrouteAll();
  await alert.getByRole('button', { name: 'Retry' }).click();
  await page.getByRole('figure', { name: 'Time to first token by time' }).waitFor();
  t.equal(await alert.count(), 0);
});
