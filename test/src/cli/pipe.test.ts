import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import type { Command } from 'commander';
import t from 'tap';
import { createProgram, runCli } from '../../../src/cli/program.ts';
import { daemonEntry } from '../../helper/daemon-bundle.ts';
import { PLAIN } from '../../helper/plain-process.ts';

t.setTimeout(300_000);

/** Bytes that a pipe takes before its reader reads. */
const PIPE_BYTES = 65_536;

const directory = mkdtempSync(join(tmpdir(), 'tracectl-pipe-'));
t.teardown(() => rmSync(directory, { recursive: true, force: true }));

const STORE = `--set=extensions.sqlite.directory=${join(directory, 'data')}`;

/** Command lines whose output does not depend on the time, or on a running daemon. */
const REPEATABLE: Readonly<Record<string, readonly string[]>> = {
  validate: [],
  components: ['--json'],
  schema: [],
  'print-config': [],
  'organization show': ['--json', STORE],
  'organization plans': ['--json', STORE],
  'projects list': ['--json', STORE],
  'keys list': ['--json', STORE],
  'usage history': ['--json', STORE],
  'usage verify': [STORE],
  'rejections list': ['--json', '--project', 'piped', STORE],
  'audit list': ['--json', STORE],
  traces: ['--project', 'piped', STORE],
};

async function inProcess(argv: readonly string[]) {
  const out: string[] = [];
  const status = await runCli(argv, {
    cwd: directory,
    env: {},
    out: (line) => out.push(`${line}\n`),
    err() {},
  });
  return { status, out: out.join('') };
}

async function throughPipe(argv: readonly string[]) {
  const child = spawn(process.execPath, [daemonEntry(), ...argv], {
    cwd: directory,
    env: { ...process.env, ...PLAIN },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const ended = new Promise<number | null>((resolve) => child.once('exit', resolve));
  return { out: await text(child.stdout), status: await ended };
}

function leavesOf(command: Command, path: readonly string[] = []): string[] {
  const own = command.commands.filter((each) => each.name() !== 'help');
  if (own.length === 0) return [path.join(' ')];
  return own.flatMap((each) => leavesOf(each, [...path, each.name()]));
}

async function programLeaves(): Promise<string[]> {
  const terminal = { cwd: directory, env: {}, out() {}, err() {} };
  return leavesOf(await createProgram(terminal, () => {}));
}

t.before(async () => {
  await inProcess(['init', 'tracectl.yaml']);
  await inProcess(['projects', 'create', 'piped', STORE]);
});

t.test('a pipe receives the whole output of every kind', async (t) => {
  const leaves = await programLeaves();
  for (const name of Object.keys(REPEATABLE)) {
    t.ok(leaves.includes(name), `${name} is a command`);
  }
  // All pages of help are written by the same code.
  for (const [name, more] of [...Object.entries(REPEATABLE), ['trace', ['--help']] as const]) {
    const argv = [...name.split(' '), ...more];
    const expected = await inProcess(argv);
    t.equal(expected.status, 0, argv.join(' '));
    t.same(await throughPipe(argv), expected, argv.join(' '));
  }
});

t.test('an output larger than the buffer of a pipe is not cut', async (t) => {
  const { out } = await throughPipe(['schema']);
  t.ok(out.length > PIPE_BYTES, `${out.length} bytes`);
  t.match(JSON.parse(out), { properties: { service: {} } });
});

t.test('a reader that closes early ends the command without an error', async (t) => {
  const closing = async (argv: readonly string[], close: (stdout: Readable) => void) => {
    const child = spawn(process.execPath, [daemonEntry(), ...argv], {
      cwd: directory,
      env: { ...process.env, ...PLAIN },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    close(child.stdout);
    const errors = text(child.stderr);
    const status = await new Promise((resolve) => child.once('exit', resolve));
    return [status, await errors];
  };
  const afterSome = await closing(['schema'], (out) => out.once('data', () => out.destroy()));
  t.same(afterSome, [0, '']);
  const exported = ['export', '--format', 'csv', '--output', '-', '--project', 'piped', STORE];
  t.same(await closing(exported, (out) => out.destroy()), [0, '']);
});

const needsFull = process.platform !== 'linux' && 'only Linux has /dev/full';

t.test('a command whose output cannot be written fails', { skip: needsFull }, async (t) => {
  const outcome = async (script: string) => {
    const child = spawn('bash', ['-c', script, 'bash', process.execPath, daemonEntry()], {
      cwd: directory,
      env: { ...process.env, ...PLAIN },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    const errors = text(child.stderr);
    const status = await new Promise((resolve) => child.once('exit', resolve));
    return { status, err: await errors };
  };
  const full = await outcome('"$1" "$2" schema > /dev/full');
  t.match(full, { status: 1, err: /^error: stdout could not be written: ENOSPC.*\n$/ });
  // The system takes the first 8 KiB of the only write.
  const cut = await outcome('ulimit -f 8; "$1" "$2" schema > cut.json');
  t.match(cut, { status: 1, err: /^error: stdout could not be written: EFBIG.*\n$/ });
  const both = await outcome('"$1" "$2" schema --none > /dev/full');
  t.match(both, { status: 64, err: /unknown option/ }, 'an own failure keeps its status');
});
