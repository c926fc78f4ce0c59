import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Page } from 'playwright-core';
import type { Test } from 'tap';
import { buildPages } from '../../../scripts/ui-build.ts';
import { type BrowserOptions, openBrowser, type TestBrowser } from '../../helper/browser.ts';
import { type Answer, send } from '../client.ts';
import { type Daemon, type DaemonOptions, startDaemon, type Tree } from '../daemon.ts';

/** A daemon with the web UI, and a browser that is signed in. */
export type UiRig = TestBrowser & {
  readonly daemon: Daemon;
  /** Opens a page of the UI, such as `/settings/keys`, and waits for its heading. */
  open(path: string): Promise<void>;
  /** A request to the admin API with the admin token. */
  admin<Body>(method: string, path: string, body?: unknown): Promise<Body>;
  /** Sends events with a key, the first one by default. Fails if the answer is no 202. */
  sendEvents(events: readonly object[], key?: string): Promise<void>;
  /** Statuses of refusals that a test provokes: the browser writes each one to its console. */
  readonly provoked: Set<number>;
  /** The page has no serious or critical finding of axe, and the browser nothing to complain about. */
  check(t: Test, name: string): Promise<void>;
};

/** The part of a test that registers clean-up. */
export type Teardown = {
  teardown(clean: () => Promise<void> | void): void;
  afterEach(clean: () => Promise<void>): void;
};

type RigOptions = { readonly daemon?: DaemonOptions; readonly browser?: BrowserOptions };

/** Milliseconds until an expected element must show: only bounds a test that fails. */
const PATIENCE_MS = 60_000;

/** A search that finds nothing in its time waits for a person, so searches have time enough on a busy machine too. */
const LIMITS = { page_time: '30s', page_timeout: '60s' };

/** Starts both, signs in by a link, and ends both at the end of the test. */
export async function startUi(t: Teardown, options: RigOptions = {}): Promise<UiRig> {
  await buildPages();
  const edit = (config: Tree): void => {
    const service = config.service as { limits?: object };
    service.limits = { ...LIMITS, ...service.limits };
    options.daemon?.edit?.(config);
  };
  const [daemon, browser] = await Promise.all([
    startDaemon(t, { ...options.daemon, edit }),
    openBrowser(t, options.browser),
  ]);
  const { page } = browser;
  page.setDefaultTimeout(PATIENCE_MS);
  // The requests that a failed test answers itself are not those of the next one.
  t.afterEach(() => page.unrouteAll({ behavior: 'ignoreErrors' }));
  const token = readFileSync(join(daemon.directory, 'data', 'admin-token'), 'utf8').trim();

  const admin = async <Body>(method: string, path: string, body?: unknown): Promise<Body> => {
    const answer = await send(daemon.adminBase, {
      method,
      path: `/api/v1${path}`,
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${textOf(answer)}`);
    return (answer.status === 204 ? undefined : JSON.parse(textOf(answer))) as Body;
  };

  const { code } = await admin<{ code: string }>('POST', '/sessions/codes');
  await page.goto(`${daemon.adminBase}/#code=${code}`);
  await page.getByRole('main').waitFor();

  const provoked = new Set<number>();
  const isProvoked = (error: string): boolean => {
    const status = /^Failed to load resource: .* status of (\d{3})/.exec(error)?.[1];
    return provoked.has(Number(status));
  };

  return {
    ...browser,
    ...{ daemon, admin, provoked },
    async open(path) {
      await page.goto(daemon.adminBase + path);
      await page.getByRole('heading', { level: 1 }).first().waitFor();
    },
    async sendEvents(events, key = daemon.key) {
      const answer = await daemon.call({
        method: 'POST',
        path: '/api/v1/observations/batch',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify({ events }),
      });
      if (answer.status !== 202) throw new Error(`${answer.status}: ${textOf(answer)}`);
    },
    async check(t, name) {
      // A part that appears has less contrast until it is there.
      await page.evaluate(APPEARED);
      t.strictSame(await findings(page), [], `${name}: axe finds nothing serious`);
      const errors = browser.errors.filter((each) => !isProvoked(each));
      t.strictSame(errors, [], `${name}: no error in the console`);
      t.strictSame(browser.foreign, [], `${name}: no request leaves the origin`);
      const isWide = await page.evaluate<boolean>(IS_WIDE);
      t.notOk(isWide, `${name}: the page does not scroll sideways`);
    },
  };
}

/** Resolves when every animation that has an end has ended, or its element is gone. */
const APPEARED = `Promise.all(document.getAnimations()
  .filter(({ playState }) => playState === 'running')
  .filter(({ effect }) => effect.getComputedTiming().endTime < Infinity)
  .map(({ finished }) => finished.catch(() => {})))
  .then(() => {})`;

const IS_WIDE = 'document.documentElement.scrollWidth > document.documentElement.clientWidth';

function textOf({ body }: Answer): string {
  return body.toString('utf8');
}

/** Runs `run` at the width of a phone, and puts the width back. */
export async function onPhone(page: Page, run: () => Promise<void>): Promise<void> {
  const before = page.viewportSize();
  await page.setViewportSize({ width: 390, height: 844 });
  await run();
  if (before !== null) await page.setViewportSize(before);
}

/** Texts that must stay texts: markup, handlers, bidi controls, NUL, terminal and template codes, long lines. */
export const HOSTILE: readonly string[] = [
  '<script>globalThis.hacked = 1</script>',
  '<img src=x onerror="globalThis.hacked = 1">',
  '"><svg onload=globalThis.hacked=1>',
  "javascript:globalThis.hacked=1//'",
  '{{constructor.constructor("globalThis.hacked=1")()}}',
  '${globalThis.hacked=1}',
  '\u202Egnp.exe\u202C \u2066right\u2069 \u200F\u200E',
  '\u001b[31mred\u001b[0m\u0007',
  '=HYPERLINK("http://example.com","click")',
  `${'W'.repeat(150)}`,
  '𝕳𝖔𝖘𝖙𝖎𝖑𝖊 👩‍👩‍👧‍👦 é̷̢̛̩',
  '</title><base href="http://example.com/">',
];

const AXE = readFileSync(
  fileURLToPath(new URL('../../../node_modules/axe-core/axe.min.js', import.meta.url)),
  'utf8',
);

/**
 * Listing the nodes that pass, and sending them to the test, costs as much as finding the others. The impact of a finding is that of its rule,
 * so the rules of slight impacts find nothing serious, and take a quarter of the time.
 */
const FINDINGS = `axe.run(document, {
  resultTypes: ['violations'],
  rules: Object.fromEntries(
    axe._audit.rules
      .filter(({ impact }) => impact === 'minor' || impact === 'moderate')
      .map(({ id }) => [id, { enabled: false }]),
  ),
}).then(({ violations }) =>
  violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, nodes }) => nodes.map(({ html }) => id + ': ' + html.slice(0, 200))),
)`;

/** The serious and critical findings of axe-core on the page. */
async function findings(page: Page): Promise<string[]> {
  // The policy of the pages blocks script elements; the debugger is not bound by it.
  if (!(await page.evaluate<boolean>("'axe' in globalThis"))) await page.evaluate(AXE);
  return await page.evaluate<string[]>(FINDINGS);
}

/** Presses Tab until the element with this name has the focus. */
export async function tabTo(page: Page, name: string): Promise<void> {
  const MOST = 300;
  const LABEL =
    'document.activeElement?.getAttribute("aria-label") ?? document.activeElement?.textContent';
  for (let step = 0; step < MOST; step += 1) {
    await page.keyboard.press('Tab');
    const label = await page.evaluate<string | null>(LABEL);
    if (label?.trim() === name) return;
  }
  throw new Error(`Tab does not reach ${name}`);
}
