import t from 'tap';
import { startUi } from './rig.ts';

t.setTimeout(240_000);

/** A daemon that is away, requests that fail late, and objects that go while a page shows them. */

const ui = await startUi(t);
const { page } = ui;
for (const status of [401, 404, 503]) ui.provoked.add(status);

type Project = { readonly id: string };

const heading = (name: string) => page.getByRole('heading', { level: 1, name, exact: true });
const alert = (text: string) => page.getByRole('alert').filter({ hasText: text });
const dialog = page.getByRole('dialog');

t.test('a page whose code cannot load keeps the address until the daemon answers', async (t) => {
  await ui.open('/traces');
  await ui.daemon.end('SIGKILL');
  await page.getByRole('link', { name: 'Users' }).click();
  await alert('The page could not be loaded.').waitFor();
  await page.getByRole('button', { name: 'Retry' }).click();
  await alert('The daemon does not answer.').waitFor();
  await ui.daemon.start();
  await page.getByRole('button', { name: 'Retry' }).click();
  await heading('Users').waitFor();
  t.match(page.url(), /\/users$/);
});
