import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as pause } from 'node:timers/promises';
import type { Test } from 'tap';
import t from 'tap';
import { runCli } from '../../../src/cli/program.ts';
import { startControlServer } from '../../../src/control/server.ts';
import { recordingLogger } from '../../helper/settings.ts';

t.setTimeout(90_000);

/** A store, and the lock that a running daemon has. */
async function store(t: Test) {
  const cwd = mkdtempSync(join(tmpdir(), 'tracectl-command-'));
  t.teardown(() => rmSync(cwd, { recursive: true, force: true }));
  const data = join(cwd, 'data');
  await runCli(['init'], { cwd, env: {}, out() {}, err() {} });
  async function run(...argv: readonly string[]) {
    const out: string[] = [];
    const err: string[] = [];
    const status = await runCli(
      [
        ...argv,
        `--set=extensions.sqlite.directory=${data}`,
        '--set=extensions.sqlite.reserve_bytes=0',
      ],
      { cwd, env: {}, out: (text) => out.push(text), err: (text) => err.push(text) },
    );
    return { status, out: out.join('\n'), err: err.join('\n') };
  }
  t.match(await run('projects', 'create', 'web'), { status: 0 });
  const lock = new DatabaseSync(join(data, 'store.lock'), { timeout: 0 });
  t.teardown(() => lock.close());
  lock.exec('PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE');
  return { data, run, release: () => lock.exec('ROLLBACK') };
}

/** A command has found the store locked by then. */
const FIRST_TRY_MS = 1_500;

t.test('a command waits for a daemon that starts', async (t) => {
  const { data, run } = await store(t);
  const listed = run('projects', 'list', '--json');
  await pause(FIRST_TRY_MS);
  const server = await startControlServer(data, async () => ['asked'], recordingLogger());
  t.teardown(() => server.close());
  t.match(await listed, { status: 0, out: /asked/, err: '' });
});

t.test('a command waits for a daemon that stops', async (t) => {
  const { run, release } = await store(t);
  const listed = run('projects', 'list', '--json');
  await pause(FIRST_TRY_MS);
  release();
  t.match(await listed, { status: 0, out: /"web"/, err: '' });
});

t.test('a command says that the store is in use if no daemon answers', async (t) => {
  const { run } = await store(t);
  const { status, err } = await run('projects', 'list');
  t.equal(status, 1);
  t.match(err, /data directory \S+ is in use by another tracectl/);
  t.equal(err.split('in use').length, 2, 'once');
});
