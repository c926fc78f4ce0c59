import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { Page } from 'playwright-core';
import { buildPages } from '../scripts/ui-build.ts';
import { send } from '../test/e2e/client.ts';
import type { Daemon } from '../test/e2e/daemon.ts';
import { openBrowser } from '../test/helper/browser.ts';
import { quantile } from './compare.ts';
import { fill } from './reading/store.ts';
import { privateBytes, rowsPainted, scrollFrames } from './ui/measure.ts';
import { traceEvents } from './ui/trace.ts';

/**
 * The web UI in real Chromium, on a daemon that is filled first: the list of traces, and a trace of 30,000 observations.
 *   npm run bench:ui -- [--observations 1000000] [--rounds 5]
 */
const { values: flags } = parseArgs({
  options: {
    observations: { type: 'string', default: '100000' },
    rounds: { type: 'string', default: '5' },
  },
});

const LARGE = 30_000;
const EVENTS_A_BATCH = 1_000;

const print = (line: string): void => void process.stdout.write(`${line}\n`);
const say = (line: string): void => void process.stderr.write(`${line}\n`);
const rounds = Number(flags.rounds);
const closers: (() => Promise<void> | void)[] = [];
const closer = { teardown: (close: () => Promise<void> | void) => void closers.push(close) };

try {
  await buildPages();
  const store = await fill('sqlite', { observations: Number(flags.observations) }, say);
  closers.push(() => store.stop());
  await sendTrace(store.daemon);
  const { page } = await openBrowser(closer);
  await signIn(page, store.daemon);
  print('| page | measured | target |');
  print('|---|---|---|');
  await measureList(page, store.daemon, store.observations + LARGE);
  await measureTrace(page, store.daemon);
} finally {
  for (const close of closers.reverse()) await close();
}

async function sendTrace(daemon: Daemon): Promise<void> {
  const events = traceEvents(LARGE);
  for (let at = 0; at < LARGE; at += EVENTS_A_BATCH) {
    const body = JSON.stringify({ events: events.slice(at, at + EVENTS_A_BATCH) });
    const headers = { authorization: `Bearer ${daemon.key}`, 'content-type': 'application/json' };
    const path = '/api/v1/observations/batch';
    const { status } = await daemon.call({ method: 'POST', path, headers, body });
    if (status !== 202) throw new Error(`the daemon answers ${status}`);
  }
  await daemon.call({ path: '/api/v1/traces/large?wait=30s', timeoutMs: 60_000 });
}

async function signIn(page: Page, daemon: Daemon): Promise<void> {
  const token = readFileSync(join(daemon.directory, 'data', 'admin-token'), 'utf8').trim();
  const answer = await send(daemon.adminBase, {
    method: 'POST',
    path: '/api/v1/sessions/codes',
    headers: { authorization: `Bearer ${token}` },
  });
  if (answer.status !== 201) throw new Error(`the daemon answers ${answer.status}`);
  const { code } = JSON.parse(answer.body.toString()) as { code: string };
  await page.goto(`${daemon.adminBase}/#code=${code}`);
  await page.getByRole('button', { name: 'Sign out' }).waitFor();
}

async function measureList(page: Page, daemon: Daemon, count: number): Promise<void> {
  const times: number[] = [];
  for (let round = 0; round < rounds; round++) {
    await page.goto(`${daemon.adminBase}/traces?range=all`);
    times.push((await rowsPainted(page, 'tbody tr', /\/traces\?/)).afterAnswer);
  }
  row(`list of ${count} observations, painted after its answer arrived`, times, 'ms', '≤ 300 ms');
}

async function measureTrace(page: Page, daemon: Daemon): Promise<void> {
  const painted: number[] = [];
  const opened: number[] = [];
  const answered: number[] = [];
  const frames: number[] = [];
  for (let round = 0; round < rounds; round++) {
    await page.goto(`${daemon.adminBase}/traces/large`);
    const { afterAnswer, sinceStart } = await rowsPainted(page, '[role=treeitem]', /fields=tree/);
    painted.push(afterAnswer);
    opened.push(sinceStart);
    answered.push(await keyAnswered(page));
    frames.push(...(await scrollFrames(page, '.tree-rows')));
  }
  frames.sort((a, b) => a - b);
  const name = `trace of ${LARGE} observations`;
  row(`${name}: rows painted after the answer arrived`, painted, 'ms', '≤ 1,000 ms');
  row(`${name}: rows painted after the page was asked for`, opened, 'ms', '–');
  row(`${name}: the key End shows the last row`, answered, 'ms', '–');
  row(`${name}: frame while scrolling, p99`, [quantile(frames, 0.99)], 'ms', '–');
  row(`${name}: frame while scrolling`, frames, 'ms', '≤ 50 ms');
  const { heap, privateMemory } = await privateBytes(page);
  row(`${name}: heap of the tab`, [heap / 1_048_576], 'MiB', '–');
  row(`${name}: private memory of the tab`, [privateMemory / 1_048_576], 'MiB', '≤ 200 MiB');
}

/** Milliseconds until a key has moved the tree. */
async function keyAnswered(page: Page): Promise<number> {
  await page.getByRole('tree').first().focus();
  const begun = performance.now();
  await page.keyboard.press('End');
  await page
    .getByText(`step ${LARGE - 1}`, { exact: true })
    .first()
    .waitFor();
  return performance.now() - begun;
}

/** Prints the median and the highest of some values. */
function row(name: string, values: readonly number[], unit: string, target: string): void {
  const sorted = [...values].sort((a, b) => a - b);
  const [middle, highest] = [quantile(sorted, 0.5), quantile(sorted, 1)];
  const text =
    sorted.length === 1
      ? `${middle.toFixed(0)} ${unit}`
      : `${middle.toFixed(0)}, at most ${highest.toFixed(0)} ${unit}`;
  print(`| ${name} | ${text} | ${target} |`);
}
