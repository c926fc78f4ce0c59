import t from 'tap';
import { until } from '../../helper/until.ts';
import { HOSTILE, onPhone, startUi } from './rig.ts';

t.setTimeout(600_000);

const ui = await startUi(t);
const { page } = ui;
// A plan with fewer projects than there are.
ui.provoked.add(409);

type Created = { readonly id: string };

const dialog = () => page.getByRole('dialog');
const confirm = (verb: string) => dialog().getByRole('button', { name: verb, exact: true }).click();
const event = { operation: 'finish', kind: 'llm', status: 'success', name: 'x' };
const first = (await ui.admin<{ projects: Created[] }>('GET', '/projects')).projects[0]?.id ?? '';

t.test('usage shows month and hour against the plan, live', async (t) => {
  await ui.sendEvents([
    { ...event, id: 'o1', trace_id: 't1', inputs: 'a'.repeat(2_048) },
    { ...event, id: 'o2', trace_id: 't1' },
  ]);
  await ui.open('/settings/usage');
  const month = page.getByRole('meter', { name: 'Events this month' });
  await until(async () => (await month.getAttribute('aria-valuetext')) === '2 of 100M');
  await page.getByText('2 KiB').first().waitFor();
  await page.getByRole('figure', { name: 'Events by day and project' }).waitFor();
  await ui.sendEvents([{ ...event, id: 'o3', trace_id: 't1' }]);
  await page.locator('[role=meter][aria-valuenow="3"]').first().waitFor();

  await page.getByRole('radio', { name: 'By key' }).check({ force: true });
  await page.getByRole('radio', { name: '48 hours' }).check({ force: true });
  await page.getByRole('figure', { name: 'Events by hour and key' }).waitFor();
  await page.getByRole('radio', { name: 'Rejected' }).check({ force: true });
  await page.getByRole('heading', { name: 'Nothing was rejected' }).waitFor();
  await page.waitForURL(/value=rejected/);
  await ui.check(t, 'usage');
  await onPhone(page, () => ui.check(t, 'usage on a phone'));
});

t.test('the history shows the counts of every project in no chart of keys', async (t) => {
  await ui.open('/settings/usage');
  await page.getByRole('figure', { name: 'Events by day and project' }).waitFor();
  let answer = (): void => {};
  const asked = new Promise<void>((resolve) => {
    answer = resolve;
  });
  await page.route(/\/usage\?.*project=/, async (route) => {
    await asked;
    await route.continue();
  });
  await page.getByRole('radio', { name: 'By key' }).check({ force: true });
  await page.getByRole('heading', { name: 'History of default' }).waitFor();
  t.equal(await page.getByRole('figure', { name: 'Events by day and key' }).count(), 0);
  await page.getByRole('figure', { name: 'Events by day and project' }).waitFor();
  answer();
  await page.getByRole('figure', { name: 'Events by day and key' }).waitFor();
  await page.unrouteAll();
});

t.test('a plan that allows fewer projects is refused with the way out', async (t) => {
  const { id } = await ui.admin<Created>('POST', '/projects', { name: 'second' });
  await ui.open('/settings/usage');
  await page.getByRole('button', { name: 'Change plan' }).click();
  await dialog().getByRole('radio', { name: /^free/ }).check();
  await confirm('Change plan');
  const alert = dialog().getByRole('alert');
  await alert.getByText('Delete 1 project before changing to free').waitFor();
  await alert.getByRole('link', { name: 'Delete projects' }).waitFor();
  await ui.check(t, 'a refused plan');
  await ui.admin('DELETE', `/projects/${id}`);
  await confirm('Change plan');
  await dialog().waitFor({ state: 'detached' });
  await page.getByText('1 project · ').waitFor();
  t.equal((await ui.admin<{ plan: string }>('GET', '/organization')).plan, 'free');
  await ui.admin('PATCH', '/organization', { plan: 'scale' });
});

t.test('the audit log names changes and actors', async (t) => {
  for (const name of HOSTILE) await ui.admin('PATCH', `/projects/${first}`, { name });
  await ui.admin('PATCH', `/projects/${first}`, { name: 'default' });
  await ui.open('/settings/audit');
  const log = page.getByRole('table', { name: 'Audit log' });
  await log.getByText('Changed a project').first().waitFor();
  await log
    .getByText(HOSTILE[0] ?? '')
    .first()
    .waitFor();
  await log.getByText('admin-token').first().waitFor();
  t.equal(await page.evaluate('globalThis.hacked'), undefined);
  await ui.check(t, 'the audit log');
  await onPhone(page, () => ui.check(t, 'the audit log on a phone'));
});

t.test('an erasure has a receipt', async (t) => {
  await ui.open('/settings/audit?tab=Erasures');
  await page.getByRole('heading', { name: 'Nothing was erased' }).waitFor();
  await ui.admin('DELETE', `/projects/${first}/traces/t1`);
  const receipt = page.getByRole('button', { name: 'Receipt' });
  await until(async () => {
    await page.reload();
    await page.getByRole('table', { name: 'Erasures' }).waitFor();
    return (await receipt.count()) > 0;
  });
  await receipt.click();
  await dialog().getByText('Hash of the ids').waitFor();
  await ui.check(t, 'a receipt');
  await confirm('Close');
});

t.test('another sign-in ends from here', async (t) => {
  const token = await ui.admin<{ code: string }>('POST', '/sessions/codes');
  const other = await fetch(`${ui.daemon.adminBase}/api/v1/session`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'x-tracectl-ui': '1',
      origin: ui.daemon.adminBase,
      'user-agent': HOSTILE[1] ?? '',
    },
    body: JSON.stringify({ code: token.code }),
  });
  t.equal(other.status, 204);
  await ui.open('/settings/audit?tab=Sign-ins');
  const table = page.getByRole('table', { name: 'Signed-in browsers' });
  await table.getByText('this browser').waitFor();
  const row = table.getByRole('row').filter({ hasText: HOSTILE[1] ?? '' });
  await ui.check(t, 'sign-ins');
  await row.getByRole('button', { name: 'End' }).click();
  await confirm('End');
  await row.waitFor({ state: 'detached' });
  const cookie = other.headers.get('set-cookie')?.split(';')[0] ?? '';
  const after = await fetch(`${ui.daemon.adminBase}/api/v1/projects`, { headers: { cookie } });
  t.equal(after.status, 401);
});
