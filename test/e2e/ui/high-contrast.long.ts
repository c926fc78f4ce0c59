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

for (const colorScheme of ['light', 'dark'] as const) {
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
