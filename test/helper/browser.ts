import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { BrowserContext, Page } from 'playwright-core';
import { chromium } from 'playwright-core';
import { givenServer, serverBinaries } from './server-binaries.ts';

/** The faults in the pages of a browser; a test expects none. */
type Complaints = {
  /** Errors of the console, thrown errors, and violations of the content security policy. */
  readonly errors: string[];
  /** Requests to another origin than that of the first page. */
  readonly foreign: string[];
};

export type TestBrowser = Complaints & {
  readonly context: BrowserContext;
  readonly page: Page;
};

export type BrowserOptions = {
  readonly width?: number;
  readonly height?: number;
  readonly theme?: 'light' | 'dark';
};

/** Without these, Chromium asks its vendor's hosts for updates. */
const QUIET = [
  ...['--disable-quic', '--no-first-run', '--disable-background-networking'],
  ...['--disable-component-update', '--disable-sync', '--disable-gpu'],
];

/** The part of a test that registers clean-up. */
type Teardown = { teardown(clean: () => Promise<void> | void): void };

/** Starts Chromium with an empty profile and one page, and ends it at the end of the test. */
export async function openBrowser(t: Teardown, options: BrowserOptions = {}): Promise<TestBrowser> {
  const profile = mkdtempSync(join(tmpdir(), 'tracectl-browser-'));
  const { width = 1440, height = 900, theme = 'light' } = options;
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: givenServer('chromium') ?? join(serverBinaries('chromium'), 'chromium'),
    headless: true,
    // Root has no sandbox.
    args: process.getuid?.() === 0 ? [...QUIET, '--no-sandbox'] : QUIET,
    viewport: { width, height },
    colorScheme: theme,
  });
  t.teardown(async () => {
    await context.close();
    rmSync(profile, { recursive: true, force: true });
  });
  const page = context.pages()[0] ?? (await context.newPage());
  return { context, page, ...complaintsOf(page) };
}

function complaintsOf(page: Page): Complaints {
  const complaints: Complaints = { errors: [], foreign: [] };
  let origin: string | undefined;
  page.on('console', (message) => {
    if (message.type() === 'error') complaints.errors.push(message.text());
  });
  page.on('pageerror', (error) => complaints.errors.push(String(error)));
  page.on('request', (request) => {
    const url = new URL(request.url());
    if (url.protocol === 'data:' || url.protocol === 'blob:') return;
    origin ??= url.origin;
    if (url.origin !== origin) complaints.foreign.push(request.url());
  });
  return complaints;
}
