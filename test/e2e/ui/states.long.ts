import type { Route } from 'playwright-core';
import t from 'tap';
import { until } from '../../helper/until.ts';
import { demoEvents } from './demo.ts';
import { startUi } from './rig.ts';

t.setTimeout(900_000);

/** Every page with data, without data, while it loads, and when the daemon fails: both themes, both widths. */

const ui = await startUi(t);
const { page } = ui;
ui.provoked.add(503);

const PAGES = [
  '/start',
  '/traces',
  '/traces/demo-0',
  '/traces/demo-5',
  '/sessions',
  '/sessions/chat-0',
  '/users',
  '/users/user-0%40example.com',
  '/dashboard',
  '/rejected',
  '/pipelines',
  '/settings/projects',
  '/settings/keys',
  '/settings/usage',
  '/settings/audit',
] as const;
const THEMES = ['light', 'dark'] as const;
const SIZES = [
  { width: 1440, height: 900 },
  { width: 390, height: 844 },
] as const;

const IS_SHOWN =
  '[...document.querySelectorAll(".loading")].every((each) => getComputedStyle(each).opacity === "1")';

/** Runs `check` for each page in each theme and width. */
async function eachPage(check: (path: string, name: string) => Promise<void>): Promise<void> {
  for (const colorScheme of THEMES) {
    await page.emulateMedia({ colorScheme });
    for (const size of SIZES) {
      await page.setViewportSize(size);
      for (const path of PAGES) await check(path, `${path}, ${colorScheme}, ${size.width} pixels`);
    }
  }
}

/** Every request to the API except those of the frame: the session and the list of projects. */
const API = /\/api\/v1\/(?!session|projects(\?|$))/;

async function withAnswers(
  answer: (route: Route) => Promise<void>,
  run: () => Promise<void>,
): Promise<void> {
  await page.route(API, answer);
  try {
    await run();
  } finally {
    await page.unrouteAll({ behavior: 'ignoreErrors' });
  }
}

t.test('without data', async (t) => {
  await eachPage(async (path, name) => {
    if (/demo|chat|user-/.test(path)) ui.provoked.add(404);
    await ui.open(path);
    await page.locator('main [aria-busy=true]').waitFor({ state: 'detached' });
    await ui.check(t, name);
  });
  ui.provoked.delete(404);
  ui.errors.length = 0;
});

t.test('with data', async (t) => {
  const events = demoEvents(120, Date.now());
  await ui.sendEvents(events);
  const { projects } = await ui.admin<{ projects: { id: string }[] }>('GET', '/projects');
  for (const id of ['demo-0', 'demo-5', 'demo-119']) {
    await ui.admin('GET', `/projects/${projects[0]?.id}/traces/${id}?wait=20s`);
  }
  await ui.daemon.call({
    ...{ method: 'POST', path: '/api/v1/observations/batch' },
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ events: [{ id: 'without a trace' }] }),
  });
  await eachPage(async (path, name) => {
    await ui.open(path);
    await page.locator('main [aria-busy=true]').waitFor({ state: 'detached' });
    await ui.check(t, name);
  });
});

t.test('while it loads', async (t) => {
  await eachPage(async (path, name) => {
    let release = (): void => {};
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    await withAnswers(
      async (route) => {
        await released;
        await route.continue().catch(() => {});
      },
      async () => {
        await page.goto(ui.daemon.adminBase + path);
        await page.getByRole('main').waitFor();
        // The sign of loading fades in.
        await until(() => page.evaluate<boolean>(IS_SHOWN));
        await ui.check(t, name);
        release();
      },
    );
  });
});

t.test('when the daemon fails', async (t) => {
  const body = JSON.stringify({ code: 'unavailable', message: 'The store is away.' });
  await withAnswers(
    (route) => route.fulfill({ status: 503, contentType: 'application/json', body }),
    () =>
      eachPage(async (path, name) => {
        // Its list is the one of the frame.
        if (path === '/settings/projects') return;
        await page.goto(ui.daemon.adminBase + path);
        await page.getByRole('alert').filter({ hasText: 'The store is away.' }).first().waitFor();
        await ui.check(t, name);
      }),
  );
});

t.test('when the frame cannot load', async (t) => {
  const body = JSON.stringify({ code: 'unavailable', message: 'The store is away.' });
  await page.route(/\/api\/v1\/projects$/, (route) =>
    route.fulfill({ status: 503, contentType: 'application/json', body }),
  );
  await page.goto(`${ui.daemon.adminBase}/traces`);
  await page.getByRole('alert').filter({ hasText: 'The store is away.' }).waitFor();
  await ui.check(t, 'the frame');
  await page.unrouteAll({ behavior: 'ignoreErrors' });
  await page.getByRole('button', { name: 'Retry' }).click();
  await page.getByRole('table', { name: 'Traces' }).waitFor();
});
