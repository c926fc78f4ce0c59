import type { Locator } from 'playwright-core';
import t from 'tap';
import { startTraces } from './traces-rig.ts';

/** High contrast of the system: the browser replaces backgrounds and borders, so data and states need colors that it keeps. */
const ui = await startTraces(t);
const { page } = ui;

/** The fill that shows nothing, in both themes. */
const CANVAS = /^(rgb\(255, 255, 255\)|rgb\(0, 0, 0\)|rgba\(.*, 0\))$/;

/** The look of the first element after the browser replaced the colors of the page. */
async function paintOf(
  selector: string,
): Promise<{ readonly fill: string; readonly edge: string }> {
  await page.locator(selector).first().waitFor();
  const [fill = '', ...edge] = await page.evaluate<string[]>(`(() => {
    const style = getComputedStyle(document.querySelector(${JSON.stringify(selector)}));
    const border = style.borderBottomWidth === '0px' ? '' : style.borderBottomColor;
    return [style.backgroundColor, border, style.outlineStyle];
  })()`);
  return { fill: CANVAS.test(fill) ? 'canvas' : fill, edge: edge.join(' ') };
}

async function boxOf(element: Locator): Promise<Box> {
  await element.scrollIntoViewIfNeeded();
  const box = await element.boundingBox();
  if (box === null) throw new Error('The element does not show');
  return box;
}

type Box = NonNullable<Awaited<ReturnType<Locator['boundingBox']>>>;

/** The largest contrast of two pixels where a button has its text: the browser paints the text on a plate that no style names. */
async function contrastOf(name: string): Promise<number> {
  const button = page.getByRole('button', { name, exact: true }).last();
  const { x, y, width, height } = await boxOf(button);
  const clip = { x: x + width / 2 - 15, y: y + height / 2 - 6, width: 30, height: 12 };
  const png = (await page.screenshot({ clip })).toString('base64');
  return await page.evaluate<number>(`(async () => {
    const bytes = Uint8Array.from(atob('${png}'), (each) => each.charCodeAt(0));
    const image = await createImageBitmap(new Blob([bytes]));
    const context = new OffscreenCanvas(image.width, image.height).getContext('2d');
    context.drawImage(image, 0, 0);
    const { data } = context.getImageData(0, 0, image.width, image.height);
    const part = (value) =>
      value <= 10 ? value / 3294.6 : ((value / 255 + 0.055) / 1.055) ** 2.4;
    const lights = Array.from({ length: data.length / 4 }, (_, index) => {
      const [red, green, blue] = data.slice(index * 4, index * 4 + 3);
      return 0.2126 * part(red) + 0.7152 * part(green) + 0.0722 * part(blue);
    });
    return (Math.max(...lights) + 0.05) / (Math.min(...lights) + 0.05);
  })()`);
}

for (const colorScheme of ['light', 'dark'] as const) {
  t.test(
    `the text of each kind of button is legible with forced colors, ${colorScheme}`,
    async (t) => {
      await page.emulateMedia({ colorScheme, forcedColors: 'active' });
      const isLegible = async (name: string): Promise<void> => {
        const contrast = await contrastOf(name);
        t.ok(contrast >= 4.5, `${name}: ${contrast}`);
      };
      await ui.open('/settings/keys');
      await page.getByRole('row').nth(1).waitFor();
      await isLegible('Create key');
      await isLegible('Rotate');
      await page.getByRole('button', { name: 'Revoke' }).click();
      await isLegible('Cancel');
      await page.getByRole('dialog').waitFor();
      await isLegible('Revoke');
      await page.keyboard.press('Escape');
    },
  );

  t.test(`shows data and chosen states with forced colors, ${colorScheme}`, async (t) => {
    await page.emulateMedia({ colorScheme, forcedColors: 'active' });
    const differ = async (one: string, other: string): Promise<void> =>
      void t.strictNotSame(await paintOf(one), await paintOf(other), one);
    const isFilled = async (mark: string): Promise<void> =>
      void t.not((await paintOf(mark)).fill, 'canvas', mark);

    await ui.open('/traces/t1');
    await isFilled('.bar');
    await differ('.row.is-shown', '.row-name');
    await differ('[role=tab][aria-selected=true]', '[role=tab][aria-selected=false]');
    await differ('.side nav [aria-current]', '.side nav a:not([aria-current])');
    await ui.check(t, 'a trace');

    await ui.open('/traces?q=name:alpha&live=1');
    await differ('.facets [aria-pressed=true]', '.facets [aria-pressed=false]');
    await ui.rows().first().waitFor();
    await page.keyboard.press('j');
    await differ('.traces tr.is-chosen', '.traces thead tr');
    await isFilled('.switch-track');
    await ui.check(t, 'the list');

    await ui.open('/settings/usage');
    await isFilled('.usage-bar span');
    await differ('.choice input:checked + span', '.choice input:not(:checked) + span');
    await differ('.settings-nav [aria-current]', '.settings-nav a:not([aria-current])');
    await ui.check(t, 'the usage');

    await ui.open('/dashboard');
    await isFilled('.chart-mark');
    await differ('.chart-mark', 'li + li > .chart-mark');
    await ui.check(t, 'the dashboard');
  });
}
