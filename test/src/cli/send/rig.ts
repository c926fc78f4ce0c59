import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Test } from 'tap';
import { runCli } from '../../../../src/cli/program.ts';
import type { Terminal } from '../../../../src/cli/terminal.ts';
import { otlpJsonBody } from '../../../helper/batches.ts';
import { fakeClock } from '../../../helper/clock.ts';
import { type OtlpServer, type Received, startOtlpServer } from '../../../helper/otlp-server.ts';
import { advanceUntil } from '../../../helper/until.ts';

export function directoryOf(t: Test): string {
  const directory = mkdtempSync(join(tmpdir(), 'tracectl-send-'));
  t.teardown(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

export type SendRun = {
  readonly status: number;
  readonly out: string;
  readonly err: string;
};

/** Runs `tracectl send …` in this process. */
export async function sendCommand(
  cwd: string,
  argv: readonly string[],
  more: Partial<Terminal> = {},
) {
  const out: string[] = [];
  const err: string[] = [];
  const status = await runCli(['send', ...argv], {
    cwd,
    env: {},
    out: (text) => out.push(text),
    err: (text) => err.push(text),
    ...more,
  });
  return { status, out: out.join('\n'), err: err.join('\n') } satisfies SendRun;
}

export function summaryIn({ out }: SendRun): Record<string, unknown> {
  return JSON.parse(out) as Record<string, unknown>;
}

/** The ids of the span with this number. */
export function idsOf(n: number) {
  return { traceId: n.toString(16).padStart(32, '0'), spanId: n.toString(16).padStart(16, '0') };
}

/** A request with the spans numbered `from` to `to`, both included. */
export function lineOf(from: number, to = from): string {
  const spans = Array.from({ length: to - from + 1 }, (_, i) => idsOf(from + i));
  return otlpJsonBody(spans).toString();
}

export function write(directory: string, lines: readonly string[], name = 'spans.jsonl'): string {
  writeFileSync(join(directory, name), lines.map((line) => `${line}\n`).join(''));
  return name;
}

export function numbersIn(requests: readonly Received[]): number[][] {
  return requests.map(({ spans }) => spans.map(({ spanId }) => Number.parseInt(spanId ?? '', 16)));
}

/** The numbers of all spans that the server got, in order. */
export function allIn(server: OtlpServer): number[] {
  return numbersIn(server.requests)
    .flat()
    .sort((a, b) => a - b);
}

export async function rigOf(t: Test) {
  return { cwd: directoryOf(t), server: await startOtlpServer(t) };
}

/** Runs the command with a clock of its own, and gives the milliseconds that it took by that clock. */
export async function sendTimed(
  cwd: string,
  argv: readonly string[],
  clock = fakeClock(),
): Promise<SendRun & { readonly elapsed: number }> {
  const startedAt = clock.now();
  let isDone = false;
  const run = sendCommand(cwd, argv, { clock }).finally(() => {
    isDone = true;
  });
  await advanceUntil(clock, STEP_MS, () => isDone);
  return { ...(await run), elapsed: clock.now() - startedAt };
}

/** Small, so that no request times out while the machine is slow. */
const STEP_MS = 20;
