import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { until } from '../../helper/until.ts';
import { ANYWHERE, cli, EMBEDDED, startDaemon, startMeasured, workDirectory } from './cli.ts';

// It starts daemons and commands one after the other, which takes long where many tests run at once.
t.setTimeout(300_000);

t.test('a daemon starts, runs commands and stops', async (t) => {
  const cwd = workDirectory(t);
  writeFileSync(join(cwd, 'tracectl.yaml'), readFileSync(EMBEDDED));
  const daemon = startMeasured(t, cwd);
  await daemon.says(/Read it back:\s+curl .*\n/);
  const file = join(cwd, 'data', 'first-key');
  t.match(daemon.stdout(), `  ${file}\n`, 'stdout is no terminal: it names the file of the key');
  t.equal(statSync(file).mode & 0o777, 0o600);
  const key = readFileSync(file, 'utf8').trim();
  t.match(key, /^ws_\w+$/);
  t.notMatch(daemon.stdout() + daemon.stderr(), key, 'no output contains the key');

  await t.test('the printed requests send an event and read it back', async (t) => {
    const base = /^ {2}(http:\/\/\S+)$/m.exec(daemon.stdout())?.[1] ?? '';
    const body = / -d '(.*)'$/m.exec(daemon.stdout())?.[1] ?? '';
    const headers = { 'x-api-key': key, 'content-type': 'application/json' };
    const url = `${base}/api/v1/observations/batch`;
    t.ok(daemon.stdout().includes(`curl -s ${url} -H "x-api-key: $(cat '${file}')"`));
    const sent = await fetch(url, { method: 'POST', headers, body });
    t.equal(sent.status, 202);
    t.match(await sent.json(), { status: 'queued', accepted: 1 });
    const [, path = ''] = /^ {2}curl -s '(.*)' -H /m.exec(daemon.stdout()) ?? [];
    const read = await fetch(path, { headers });
    t.equal(read.status, 200, 'the second request waits until the first one is stored');
  });

  await t.test('accepts a key that a command created, without delay', async (t) => {
    await daemon.socket();
    const made = await cli(cwd, ['keys', 'create', '--json']);
    const { token } = JSON.parse(made.out) as { token: string };
    const base = /^ {2}(http:\/\/\S+)$/m.exec(daemon.stdout())?.[1] ?? '';
    const me = await fetch(`${base}/api/v1/me`, { headers: { 'x-api-key': token } });
    t.equal(me.status, 200);
  });

  await t.test('answers the dead-letter commands', async (t) => {
    t.match(JSON.parse((await cli(cwd, ['dead-letter', 'list', '--json'])).out), {
      dead_letters: [],
    });
    t.match(await cli(cwd, ['dead-letter', 'drop']), {
      status: 64,
      err: /give either ids or --all/,
    });
  });

  await t.test(
    'keeps running on an invalid or missing file, and reloads a valid one',
    async (t) => {
      const good = readFileSync(EMBEDDED, 'utf8');
      rmSync(join(cwd, 'tracectl.yaml'));
      daemon.child.kill('SIGHUP');
      await daemon.logs(/New configuration could not be read.*tracectl\.yaml does not exist here/);
      writeFileSync(
        join(cwd, 'tracectl.yaml'),
        good.replace('exporters: [sqlite]', 'exporters: [sqlit]'),
      );
      daemon.child.kill('SIGHUP');
      await daemon.logs(/New configuration is not valid/);
      writeFileSync(join(cwd, 'tracectl.yaml'), good);
      const reload = await cli(cwd, ['reload', ...ANYWHERE]);
      t.match(reload, { status: 0, out: 'Reloaded.' });
    },
  );

  const ended = once(daemon.child, 'exit');
  daemon.child.kill('SIGTERM');
  daemon.child.kill('SIGINT');
  t.same(await ended, [0, null], 'two signals at once are one');
  t.notOk(existsSync(join(cwd, 'data', 'control.sock')));

  const again = startDaemon(t, cwd);
  await again.says(/Manage keys: tracectl keys/);
  t.notMatch(again.stdout(), /first-key|ws_/, 'a later start shows no key');
  const killed = once(again.child, 'exit');
  again.child.kill('SIGINT');
  t.same(await killed, [0, null]);
});

t.test(
  'a command of a user who may not open the data directory says so',
  { skip: process.getuid?.() === 0 ? false : 'only root can become another user' },
  async (t) => {
    const cwd = workDirectory(t);
    writeFileSync(join(cwd, 'tracectl.yaml'), readFileSync(EMBEDDED));
    chmodSync(cwd, 0o755);
    mkdirSync(join(cwd, 'data'), { mode: 0o700 });
    // As root first, which loads the modules of the command: the other user may not be able to read them.
    t.match(await cli(cwd, ['reload']), { status: 1, err: /^error: no daemon runs with the data/ });
    process.seteuid?.(65_534);
    const said = await cli(cwd, ['reload']).finally(() => process.seteuid?.(0));
    t.match(said, { status: 1, err: /^error: this user may not open the data directory .*Run/ });
  },
);

t.test('a command to a daemon that starts or stops waits for it', async (t) => {
  const cwd = workDirectory(t);
  writeFileSync(join(cwd, 'tracectl.yaml'), readFileSync(EMBEDDED));
  const daemon = startDaemon(t, cwd);
  const pid = join(cwd, 'data', 'store.pid');
  await until(() => existsSync(pid));
  t.notOk(existsSync(join(cwd, 'data', 'control.sock')), 'the daemon takes no command yet');
  t.match(await cli(cwd, ['dead-letter', 'list']), { status: 0, err: '' });
  t.same(await daemon.stop(), [0, null]);
  t.match(await cli(cwd, ['dead-letter', 'list']), {
    status: 1,
    err: /^error: no daemon runs with/,
  });

  // As daemons that were killed, also in another container, where this process or its parent has their number; then one that does not end.
  for (const killed of [999_999_999, process.pid, process.ppid]) {
    writeFileSync(pid, String(killed));
    t.match(await cli(cwd, ['reload']), { status: 1, err: /^error: no daemon runs with/ });
  }
  const lock = openSync(join(cwd, 'data', 'store.lock'), 'r');
  const owner = spawn('sleep', ['600'], { stdio: ['ignore', 'ignore', 'ignore', lock] });
  t.teardown(() => owner.kill());
  closeSync(lock);
  writeFileSync(pid, String(owner.pid));
  t.match(await cli(cwd, ['reload']), {
    status: 1,
    err: new RegExp(`^error: the process ${owner.pid} has the data directory \\S+ and answers no`),
  });
});
