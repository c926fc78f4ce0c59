import t from 'tap';
import { startUi } from './rig.ts';

t.setTimeout(600_000);

const ui = await startUi(t);
const { page } = ui;
const { projects } = await ui.admin<{ projects: { id: string }[] }>('GET', '/projects');
const project = projects[0]?.id ?? '';

/** A trace whose id is also the id of its observation, its session and its user. */
function traceOf(id: string): object {
  return {
    ...{ observation_id: id, trace_id: id, operation: 'finish', kind: 'llm', name: `named ${id}` },
    ...{ status: 'success', metadata: { session_id: id, user_id: id } },
    ...{ inputs: `input of ${id}`, start_time: new Date(Date.now() - 60_000).toISOString() },
    end_time: new Date(Date.now() - 59_000).toISOString(),
  };
}

const IDS = ['.', '..', '~.', '~..', '...', 'a/../b', '%2e', '..%2F', 'stream', '?q#h'];
await ui.sendEvents(IDS.map(traceOf));
await ui.admin('GET', `/projects/${project}/traces/${encodeURIComponent('?q#h')}?wait=20s`);

const heading = page.getByRole('heading', { level: 1 });
const NAMES = { '/traces': 'Traces', '/sessions': 'Sessions', '/users': 'Users' };

for (const [path, name] of Object.entries(NAMES)) {
  t.test(`${path} opens every id, from the list and from the address`, async (t) => {
    await ui.open(path);
    const table = page.getByRole('table', { name, exact: true });
    for (const id of IDS) {
      const title = path === '/traces' ? `named ${id}` : id;
      await table.getByRole('link', { name: title, exact: true }).first().click();
      await page.waitForURL((url) => url.pathname.startsWith(`${path}/`));
      await heading.filter({ hasNotText: new RegExp(`^${name}$`) }).waitFor();
      t.equal(await heading.textContent(), title);
      await page.getByText(`input of ${id}`, { exact: true }).first().waitFor();
      await page.reload();
      await page.getByText(`input of ${id}`, { exact: true }).first().waitFor();
      t.equal(await heading.textContent(), title, 'by its address');
      await page.goBack();
    }
  });
}

t.test('keeps the addresses of other ids', async (t) => {
  await ui.sendEvents([traceOf('a b/ü~')]);
  await ui.admin('GET', `/projects/${project}/traces/${encodeURIComponent('a b/ü~')}?wait=20s`);
  await ui.open(`/traces/${encodeURIComponent('a b/ü~')}`);
  t.equal(await heading.textContent(), 'named a b/ü~');
});

t.test('the command reads the same ids', async (t) => {
  for (const id of ['.', '..', '~.']) {
    const { stdout, stderr } = await ui.daemon.cli('trace', id);
    t.match(stdout, `named ${id}`, stderr);
  }
});

t.test('deletes the trace with the id ..', async (t) => {
  await ui.open('/traces/~..');
  await page.getByText('input of ..', { exact: true }).waitFor();
  await page.getByRole('button', { name: 'Delete trace' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('button', { name: 'Delete trace' }).click();
  await page.getByRole('dialog', { name: 'The trace is erased' }).waitFor({ timeout: 90_000 });
  const { traces } = await ui.admin<{ traces: { id: string }[] }>(
    'GET',
    `/projects/${project}/traces`,
  );
  t.same(traces.map(({ id }) => id).sort(), [...IDS.filter((id) => id !== '..'), 'a b/ü~'].sort());
});

t.test('a client with the rules for URLs reads these ids with a key', async (t) => {
  const { base, key } = ui.daemon;
  const answer = await fetch(`${base}/api/v1/traces/~.`, {
    headers: { authorization: `Bearer ${key}` },
  });
  const { trace } = (await answer.json()) as { trace: { id: string } };
  t.equal(trace.id, '.');
});
