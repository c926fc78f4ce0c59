import { readFileSync } from 'node:fs';
import type { Page } from 'playwright-core';

type Painted = {
  /** Milliseconds from the end of an answer to the frame behind the one with the rows. */
  readonly afterAnswer: number;
  /** Milliseconds since the page was asked for. */
  readonly sinceStart: number;
};

/** Milliseconds until rows must show; the page says what it shows instead. */
const LATEST_MS = 30_000;

/** Waits until rows are painted. `answer` matches the address of the request that they come from. */
export async function rowsPainted(page: Page, rows: string, answer: RegExp): Promise<Painted> {
  // The page runs it as text: its functions know nothing of this file.
  return await page.evaluate<Painted>(`(async () => {
    const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
    while (document.querySelector(${JSON.stringify(rows)}) === null) {
      if (performance.now() > ${LATEST_MS}) throw new Error(document.body.innerText.slice(0, 1000));
      await frame();
    }
    await frame();
    const now = performance.now();
    const entries = performance.getEntriesByType('resource').filter(({ name }) => ${answer}.test(name));
    return { afterAnswer: now - entries.at(-1).responseEnd, sinceStart: now };
  })()`);
}

/** Milliseconds of each frame while a list scrolls down, some rows a frame. */
export async function scrollFrames(page: Page, scroller: string): Promise<number[]> {
  return await page.evaluate<number[]>(`(async () => {
    const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
    const element = document.querySelector(${JSON.stringify(scroller)});
    element.scrollTop = 0;
    await frame();
    let before = await frame();
    const times = [];
    for (let step = 0; step < ${FRAMES}; step++) {
      element.scrollTop += ${PIXELS};
      const now = await frame();
      times.push(now - before);
      before = now;
    }
    return times;
  })()`);
}

const FRAMES = 300;
/** A fast wheel. */
const PIXELS = 400;

type Memory = { readonly heap: number; readonly privateMemory: number };

/** The memory of the tab: its JavaScript heap, and what its process shares with no other one. */
export async function privateBytes(page: Page): Promise<Memory> {
  const tab = await page.context().newCDPSession(page);
  await tab.send('HeapProfiler.collectGarbage');
  const { metrics } = await tab.send('Performance.getMetrics').catch(() => ({ metrics: [] }));
  await tab.send('Runtime.enable');
  const { usedSize } = await tab.send('Runtime.getHeapUsage');
  const heap = metrics.find(({ name }) => name === 'JSHeapUsedSize')?.value ?? usedSize;
  const browser = page.context().browser();
  const session = await (browser === null
    ? page.context().newCDPSession(page)
    : browser.newBrowserCDPSession());
  const { processInfo } = await session.send('SystemInfo.getProcessInfo');
  const sizes = processInfo
    .filter(({ type }) => type === 'renderer')
    .map(({ id }) => privateOf(id));
  return { heap: Math.max(heap, usedSize), privateMemory: Math.max(0, ...sizes) };
}

function privateOf(pid: number): number {
  const text = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');
  const kilobytes = [...text.matchAll(/^Private_\w+:\s+(\d+) kB$/gm)].map(([, size]) =>
    Number(size),
  );
  return kilobytes.reduce((sum, each) => sum + each, 0) * 1024;
}
