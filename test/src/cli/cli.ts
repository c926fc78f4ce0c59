import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { runCli } from '../../../src/cli/program.ts';
import { daemonEntry } from '../../helper/daemon-bundle.ts';
import { PLAIN } from '../../helper/plain-process.ts';
import { until } from '../../helper/until.ts';

export const ROOT = fileURLToPath(new URL('../../../', import.meta.url));
export const EMBEDDED = join(ROOT, 'config', 'embedded.yaml');

export type Test = { teardown(clean: () => unknown): unknown };

export function workDirectory(t: Test): string {
  const directory = mkdtempSync(join(tmpdir(), 'tracectl-cli-'));
  t.teardown(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

/** Carries out a command line in this process. */
export async function cli(
  cwd: string,
  argv: readonly string[],
  env: Record<string, string> = {},
  ask?: (question: string) => Promise<string>,
) {
  const out: string[] = [];
  const err: string[] = [];
  const status = await runCli(argv, {
    cwd,
    env,
    out: (text) => out.push(text),
    err: (text) => err.push(text),
    ...(ask === undefined ? {} : { ask }),
  });
  return { status, out: out.join('\n'), err: err.join('\n') };
}

/** Ports of the configurations below: never listened on, except for port 0, which the system chooses. */
export const ANYWHERE = [
  '--set=extensions.admin.endpoint=127.0.0.1:0',
  '--set=extensions.health_check.endpoint=127.0.0.1:0',
  '--set=receivers.native.endpoint=127.0.0.1:0',
  '--set=receivers.runs.endpoint=127.0.0.1:0',
  '--set=receivers.otlp.protocols.http.endpoint=127.0.0.1:0',
  '--set=receivers.otlp.protocols.grpc.endpoint=127.0.0.1:0',
  '--set=service.telemetry.metrics.level=none',
  '--set=extensions.sqlite.reserve_bytes=0',
];

export function startDaemon(t: Test, cwd: string, ...more: readonly string[]) {
  return startFrom(t, cwd, daemonEntry(), { ...process.env, ...PLAIN }, more);
}

/** With coverage, which a start from the bundles does not have, for twice the CPU. */
export function startMeasured(t: Test, cwd: string) {
  return startFrom(t, cwd, join(ROOT, 'src/main.ts'), process.env, []);
}

function startFrom(
  t: Test,
  cwd: string,
  entry: string,
  env: NodeJS.ProcessEnv,
  more: readonly string[],
) {
  const child = spawn(process.execPath, [entry, 'run', ...ANYWHERE, ...more], {
    ...{ cwd, env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  t.teardown(() => child.kill('SIGKILL'));
  const stdout = collect(child, 'stdout');
  const stderr = collect(child, 'stderr');
  return {
    child,
    stdout: stdout.text,
    stderr: stderr.text,
    says: stdout.until,
    logs: stderr.until,
    /** Resolves with the exit status and signal. */
    async stop() {
      const ended = once(child, 'exit');
      child.kill('SIGTERM');
      return ended;
    },
    /** The control socket is opened right after the start has been announced. */
    async socket() {
      await until(() => existsSync(join(cwd, 'data', 'control.sock')));
    },
  };
}

export function collect(child: ChildProcess, name: 'stdout' | 'stderr') {
  let text = '';
  const stream = child[name];
  stream?.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk;
  });
  return {
    text: () => text,
    async until(pattern: RegExp) {
      while (!pattern.test(text)) {
        if (stream === null || stream.readableEnded) throw new Error(`it ended: ${text}`);
        await Promise.race([once(stream, 'data'), once(stream, 'end')]);
      }
    },
  };
}
