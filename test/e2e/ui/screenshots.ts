import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { demoEvents } from './demo.ts';
import { startUi, type UiRig } from './rig.ts';

/**
 * Makes screenshots of every page, with data that a real daemon received: `npm run screenshots -- --output DIRECTORY`.
 * Without `--all` only those of docs/images.
 */
const { values } = parseArgs({
  options: {
    output: { type: 'string', default: 'docs/images' },
    all: { type: 'boolean', default: false },
  },
});

const PAGES = {
  traces: '/traces?range=24h',
  trace: '/traces/demo-0?observation=demo-0-answer',
  failed: '/traces/demo-5',
  sessions: '/sessions',
  session: '/sessions/chat-0',
  users: '/users',
  user: '/users/user-0%40example.com',
  dashboard: '/dashboard?range=24h',
  start: '/start',
  rejected: '/rejected',
  pipelines: '/pipelines',
  projects: '/settings/projects',
  keys: '/settings/keys',
  usage: '/settings/usage',
  audit: '/settings/audit',
} as const;
/** The pages of docs/images. */
const SHOWN = [
  { page: 'traces', theme: 'light' },
  { page: 'trace', theme: 'light' },
  { page: 'dashboard', theme: 'dark' },
  { page: 'pipelines', theme: 'light' },
] as const;
const WIDTHS = { wide: { width: 1440, height: 900 }, phone: { width: 390, height: 844 } } as const;
/** Milliseconds for requests and charts behind the first text of a page. */
const SETTLE_MS = 1_500;
const EVENTS_A_REQUEST = 500;

/** Model calls have a cost. */
const WITH_COST = {
  processors: { cost: { store: 'sqlite' } },
  service: { pipelines: { 'traces/store': { processors: ['normalization', 'cost'] } } },
};
/** Requests while the page of the pipelines counts, so that it has rates. */
const BUSY_REQUESTS = 40;
const BUSY_MS = 300;

const cleanups: (() => Promise<void> | void)[] = [];
try {
  const ui = await startUi(
    { teardown: (clean) => void cleanups.push(clean), afterEach: () => undefined },
    { daemon: { config: WITH_COST } },
  );
  const events = demoEvents(400, Date.now());
  for (let at = 0; at < events.length; at += EVENTS_A_REQUEST) {
    await ui.sendEvents(events.slice(at, at + EVENTS_A_REQUEST));
  }
  mkdirSync(values.output, { recursive: true });
  const shots = values.all
    ? Object.keys(PAGES).flatMap((page) =>
        (['light', 'dark'] as const).map((theme) => ({ page: page as keyof typeof PAGES, theme })),
      )
    : SHOWN;
  for (const { page, theme } of shots) {
    await ui.page.emulateMedia({ colorScheme: theme });
    for (const [width, size] of Object.entries(WIDTHS)) {
      if (width === 'phone' && !values.all) continue;
      await ui.page.setViewportSize(size);
      await ui.open(PAGES[page]);
      if (page === 'pipelines') await keepBusy(ui);
      await new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
      const name = width === 'phone' ? `${page}-${theme}-phone.png` : `${page}-${theme}.png`;
      await ui.page.screenshot({ path: join(values.output, name) });
      process.stdout.write(`${join(values.output, name)}\n`);
    }
  }
} finally {
  for (const clean of cleanups.reverse()) await clean();
}

/** Sends traces, one request after the other. */
async function keepBusy(ui: UiRig): Promise<void> {
  for (let sent = 0; sent < BUSY_REQUESTS; sent += 1) {
    // Equal bodies would be repetitions of one request, which count once.
    await ui.sendEvents(demoEvents(10, Date.now()));
    await new Promise((resolve) => setTimeout(resolve, BUSY_MS));
  }
}
