import t from 'tap';
import { until } from '../../helper/until.ts';
import { HOSTILE, onPhone, startUi } from './rig.ts';

t.setTimeout(600_000);

const ui = await startUi(t);
const { page, daemon } = ui;
const row = (text: string) =>
  page.getByRole('table', { name: 'Rejections' }).getByRole('row').filter({ hasText: text });

/** Sends items of which the daemon rejects each. */
async function sendBad(events: readonly unknown[]): Promise<void> {
  await daemon.call({
    method: 'POST',
    path: '/api/v1/observations/batch',
    headers: { 'content-type': 'application/json', 'user-agent': '<b>client</b>/1.0' },
    body: JSON.stringify({ events }),
  });
}

t.test('an empty page says what it would show', async (t) => {
  await ui.open('/rejected');
  await page.getByRole('heading', { name: 'Nothing was rejected' }).waitFor();
  await ui.check(t, 'nothing rejected');
});

t.test('rejections show by code, with reason, key and advice', async (t) => {
  const event = { operation: 'finish', kind: 'llm', status: 'success' };
  await sendBad([
    { ...event, id: 'no-trace' },
    { ...event, id: 'cf', trace_id: 't', custom_fields: [] },
    7,
  ]);
  await ui.open('/rejected');
  await page.getByRole('figure', { name: 'Rejected over time by code' }).waitFor();
  await row('no-trace').getByText('events[0].trace_id is required').waitFor();
  await row('no-trace').getByText('/api/v1/observations/batch').waitFor();
  await row('no-trace').getByText('<b>client</b>/1.0').waitFor();
  const codes = page.getByRole('table', { name: 'Codes' });
  const fields = codes.getByRole('row').filter({ hasText: 'invalid_custom_fields' });
  await fields.getByText('Send custom_fields as an object').waitFor();
  await fields.getByRole('button', { name: 'Only these' }).click();
  await row('no-trace').waitFor({ state: 'detached' });
  await page.waitForURL(/code=invalid_custom_fields/);
  await page.reload();
  await row('cf').waitFor();
  t.equal(await row('no-trace').count(), 0, 'the address holds the filter');
  await ui.check(t, 'rejected');
  await onPhone(page, () => ui.check(t, 'rejected, on a phone'));
  await row('cf').getByTitle('Only this key').click();
  await page.getByRole('link', { name: 'See the key' }).click();
  await page.getByRole('table', { name: 'API keys' }).getByRole('row').nth(1).waitFor();
  await page.getByText('1 of 1', { exact: true }).waitFor();
});

t.test('goes on to read new rejections after the page was hidden', async (t) => {
  const show = (state: string) =>
    page.evaluate(`Object.defineProperty(document, 'visibilityState', { value: '${state}', configurable: true });
      document.dispatchEvent(new Event('visibilitychange'))`);
  await page.clock.install();
  await ui.open('/rejected');
  await row('no-trace').waitFor();
  await show('hidden');
  await page.clock.runFor(20_000);
  await sendBad([{ operation: 'finish', kind: 'llm', status: 'success', id: 'while-hidden' }]);
  await show('visible');
  await until(async () => {
    const read = page.waitForResponse((each) => each.url().includes('/rejections'));
    await page.clock.runFor(5_000);
    await read;
    return (await row('while-hidden').count()) > 0;
  });
  t.pass('the new one is there');
});

t.test('a code is explained with the text of the errors page', async (t) => {
  await ui.open('/rejected');
  const codes = page.getByRole('table', { name: 'Codes' });
  await codes
    .getByRole('row')
    .filter({ hasText: 'missing_field' })
    .getByRole('button', { name: 'Explain' })
    .click();
  const dialog = page.getByRole('dialog');
  await dialog.getByText('a required field is absent or null').waitFor();
  await dialog.getByRole('button', { name: 'All codes' }).click();
  await dialog.getByText('Every refusal has a code').waitFor();
  await ui.check(t, 'the explanation');
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'detached' });
});

t.test('looks for a rare code in ten pages at a time', async (t) => {
  let asked = 0;
  await page.route(/\/rejections\?/, async (route) => {
    asked += 1;
    const at = new Date(Date.now() - asked * 1_000).toISOString();
    const other = { at, key_id: 'key_1', path: '/', code: 'other', reason: 'other', count: 1 };
    const rejections = [{ ...other, item_id: null, client: null }];
    await route.fulfill({ json: { rejections, next_cursor: String(asked) } });
  });
  await ui.open('/rejected?code=rare');
  const further = page.getByRole('button', { name: 'Continue' });
  await further.waitFor();
  await page.getByText('Searched back to').waitFor();
  t.equal(asked, 10);
  await further.click();
  await until(() => asked === 20);
  await further.waitFor();
  t.equal(asked, 20);
  await page.unrouteAll({ behavior: 'ignoreErrors' });
});

t.test('hostile items stay texts', async (t) => {
  const items = HOSTILE.map((text) => ({ id: text, trace_id: text, operation: text, kind: text }));
  await sendBad(items);
  await ui.open('/rejected');
  await row(HOSTILE[0] ?? '')
    .first()
    .waitFor();
  t.equal(await page.evaluate('globalThis.hacked'), undefined);
  await ui.check(t, 'hostile rejections');
  await onPhone(page, () => ui.check(t, 'hostile rejections, on a phone'));
});

t.test('a hostile address of the page shows an empty list', async (t) => {
  await ui.open(`/rejected?code=${encodeURIComponent(HOSTILE[1] ?? '')}&key=%00&by=constructor`);
  await page.getByRole('heading', { name: 'Lately' }).waitFor();
  t.equal(await page.evaluate('globalThis.hacked'), undefined);
  await ui.check(t, 'a hostile filter');
});
