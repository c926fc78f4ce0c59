import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import t from 'tap';
import { ANYWHERE, cli, EMBEDDED, ROOT, startDaemon, type Test, workDirectory } from './cli.ts';

// It starts daemons and commands one after the other, which takes long where many tests run at once.
t.setTimeout(300_000);

t.test('a first start that fails behind the store says where its key is', async (t) => {
  const cwd = workDirectory(t);
  writeFileSync(join(cwd, 'tracectl.yaml'), readFileSync(EMBEDDED));
  const failing = await failingStart(t, cwd);
  t.same(await once(failing.child, 'close'), [1, null]);
  const file = join(cwd, 'data', 'first-key');
  t.match(
    failing.stderr(),
    new RegExp(`with a key in the file ${file}\\.\\nerror: .*EADDRINUSE.*\\n$`),
  );
  const key = readFileSync(file, 'utf8').trim();
  t.notMatch(failing.stdout() + failing.stderr(), key);

  const daemon = startDaemon(t, cwd);
  await daemon.says(/Manage keys: tracectl keys/);
  const base = /^ {2}(http:\/\/\S+)$/m.exec(daemon.stdout())?.[1] ?? '';
  const me = await fetch(`${base}/api/v1/me`, { headers: { 'x-api-key': key } });
  t.equal(me.status, 200);
  const ended = once(daemon.child, 'exit');
  daemon.child.kill('SIGTERM');
  t.same(await ended, [0, null]);
});

t.test('a start that fails says its error also if the key cannot be saved', async (t) => {
  const cwd = workDirectory(t);
  writeFileSync(join(cwd, 'tracectl.yaml'), readFileSync(EMBEDDED));
  mkdirSync(join(cwd, 'data', 'first-key.new'), { recursive: true });
  const failing = await failingStart(t, cwd);
  t.same(await once(failing.child, 'close'), [1, null]);
  t.match(
    failing.stderr(),
    /with a key that could not be saved: EISDIR.* Create another one: tracectl keys create --project \S+, .*\nerror: .*EADDRINUSE.*\n$/,
  );
});

t.test('a start shows the key of a first start that was killed before it did', async (t) => {
  const cwd = workDirectory(t);
  writeFileSync(join(cwd, 'tracectl.yaml'), readFileSync(EMBEDDED));
  const list = ['keys', 'list', '--config', EMBEDDED, ...ANYWHERE];
  const env = { TRACECTL_DATA: join(cwd, 'data') };
  const file = join(cwd, 'data', 'first-key');
  await killedFirstStart(t, cwd, 'before');
  t.equal(keptKeys(cwd).length, 1);
  await killedFirstStart(t, cwd, 'after');
  t.equal(keptKeys(cwd).length, 2, 'the store has the second key');
  t.notOk(existsSync(file));

  const daemon = startDaemon(t, cwd);
  await daemon.says(/Read it back:\s+curl .*\n/);
  t.match(daemon.stdout(), /An earlier start created the project default \(proj_\w+\) and a key/);
  t.match(daemon.stdout(), `  ${file}\n`);
  const key = readFileSync(file, 'utf8').trim();
  const base = /^ {2}(http:\/\/\S+)$/m.exec(daemon.stdout())?.[1] ?? '';
  const me = await fetch(`${base}/api/v1/me`, { headers: { 'x-api-key': key } });
  t.equal(me.status, 200);
  t.same(await daemon.stop(), [0, null]);
  t.equal(keptKeys(cwd).length, 1, 'the key of no store stays');
  t.match(await cli(cwd, list, env), { status: 0, err: '' });
});

t.test('the key of a killed first start replaces no other key', async (t) => {
  const cwd = workDirectory(t);
  const options = ['--config', EMBEDDED, ...ANYWHERE];
  const env = { TRACECTL_DATA: join(cwd, 'data') };
  writeFileSync(join(cwd, 'tracectl.yaml'), readFileSync(EMBEDDED));
  await killedFirstStart(t, cwd, 'after');
  const [kept = ''] = keptKeys(cwd);
  const file = join(cwd, 'data', 'first-key');
  writeFileSync(file, 'of another store');
  const key = readFileSync(kept, 'utf8');
  const other = kept.replace('first-key-', 'first-key.');
  const list = ['keys', 'list', ...options];
  t.match(await cli(cwd, list, env), { status: 0, err: `with a key in the file ${other}.` });
  t.equal(readFileSync(file, 'utf8'), 'of another store');
  t.equal(readFileSync(other, 'utf8'), key);
  t.match(await cli(cwd, list, env), { status: 0, err: '' });

  writeFileSync(kept, key.slice(0, 40));
  t.match(await cli(cwd, list, env), { status: 0, err: '' }, 'half a key is none');
});

t.test('the first start of two stores shows the key of each', async (t) => {
  const cwd = workDirectory(t);
  writeFileSync(join(cwd, 'tracectl.yaml'), readFileSync(EMBEDDED));
  const both = ['--config=tracectl.yaml', addSecondStore(cwd)];
  const daemon = startDaemon(t, cwd, ...both);
  await daemon.says(/ created the project[\s\S]* created the project .*\n/);
  t.same(await daemon.stop(), [0, null]);
  const files = readdirSync(join(cwd, 'data')).filter((name) =>
    /^first-key(?:\.ws_\w{8})?$/.test(name),
  );
  t.equal(files.length, 2);
  for (const file of files) t.match(daemon.stdout(), `  ${join(cwd, 'data', file)}\n`);
  for (const store of ['sqlite', 'sqlite/other']) {
    const [, file = ''] = storeKey(store).exec(daemon.stdout()) ?? [];
    const list = ['keys', 'list', '--store', store, '--json', ...both];
    const listed = await cli(cwd, list, { TRACECTL_DATA: join(cwd, 'data') });
    const [{ prefix }] = JSON.parse(listed.out).keys as [{ prefix: string }];
    t.ok(readFileSync(file, 'utf8').startsWith(prefix), `${store}: the named file has its key`);
  }
  t.same(keptKeys(cwd), []);
  t.notMatch(
    daemon.stdout(),
    'Send a first event',
    'no key is shown for an endpoint that may refuse it',
  );
});

t.test('the key of a store that is added replaces no other key', async (t) => {
  const cwd = workDirectory(t);
  writeFileSync(join(cwd, 'tracectl.yaml'), readFileSync(EMBEDDED));
  const env = { TRACECTL_DATA: join(cwd, 'data') };
  await cli(cwd, ['keys', 'list', ...ANYWHERE], env);
  const file = join(cwd, 'data', 'first-key');
  const key = readFileSync(file, 'utf8');

  const daemon = startDaemon(t, cwd, '--config=tracectl.yaml', addSecondStore(cwd));
  await daemon.says(storeKey('sqlite/other'));
  t.equal(readFileSync(file, 'utf8'), key);
  t.notMatch(daemon.stdout(), 'Send a first event', 'the endpoint takes keys of the other store');
  t.same(await daemon.stop(), [0, null]);
});

t.test('a key that a command revoked is not shown', async (t) => {
  const cwd = workDirectory(t);
  const options = ['--config', EMBEDDED, ...ANYWHERE];
  const env = { TRACECTL_DATA: join(cwd, 'data') };
  const first = await cli(cwd, ['keys', 'list', '--json', ...options], env);
  const [{ id }] = JSON.parse(first.out).keys as [{ id: string }];
  const key = readFileSync(join(cwd, 'data', 'first-key'), 'utf8');
  t.same(keptKeys(cwd), []);
  t.match(await cli(cwd, ['keys', 'revoke', id, ...options], env), { status: 0 });
  writeFileSync(join(cwd, 'data', `first-key-${key.slice(0, 11)}`), key);
  t.match(await cli(cwd, ['keys', 'list', ...options], env), { status: 0, err: '' });
});

t.test('a start that cannot save the key of a new store says how to make another', async (t) => {
  const cwd = workDirectory(t);
  writeFileSync(join(cwd, 'tracectl.yaml'), readFileSync(EMBEDDED));
  mkdirSync(join(cwd, 'data', 'first-key.new'), { recursive: true });
  const daemon = startDaemon(t, cwd);
  await daemon.says(/Read it back:\s+curl .*\n/);
  const said = /a key that could not be saved: EISDIR.*\nCreate another one: tracectl (.*), with/;
  const command = said.exec(daemon.stdout())?.[1] ?? '';
  t.match(daemon.stdout(), ' -H "x-api-key: <key>"', 'the requests to try have no key');
  await daemon.socket();
  t.match(await cli(cwd, command.split(' ')), { status: 0, out: /^ws_\w+$/ });
  t.same(await daemon.stop(), [0, null]);

  rmSync(join(cwd, 'data', 'first-key.new'), { recursive: true });
  const list = ['keys', 'list', '--config', EMBEDDED, ...ANYWHERE];
  const next = await cli(cwd, list, { TRACECTL_DATA: join(cwd, 'data') });
  t.match(next.err, /^An earlier start created the project default \(proj_\w+\) with a key in/);
  t.match(next.err, `a key in the file ${join(cwd, 'data', 'first-key')}.`);
});

/** Writes the part of a configuration that has a second store; returns the argument for it. */
function addSecondStore(cwd: string): string {
  const part = [
    `extensions: {sqlite/other: {directory: ${join(cwd, 'other')}}}`,
    'service: {extensions: [sqlite, sqlite/other, admin, health_check]}',
  ];
  writeFileSync(join(cwd, 'other.yaml'), part.join('\n'));
  return '--config=other.yaml';
}

/** The text of a start about the first key of a store, with the file. */
function storeKey(store: string): RegExp {
  return new RegExp(`\\(proj_\\w+\\) in the store ${store} and a key, .*\\n\\n {2}(.*)\\n`);
}

/** The files of keys that no start has shown. */
function keptKeys(cwd: string): string[] {
  const data = join(cwd, 'data');
  return readdirSync(data)
    .filter((name) => name.startsWith('first-key-'))
    .map((name) => join(data, name));
}

/** Creates a store, and is killed before or after it is durable. */
async function killedFirstStart(t: Test, cwd: string, moment: 'before' | 'after') {
  const script = join(ROOT, 'test/helper/killed-first-start.ts');
  const argv = [script, moment, join(cwd, 'tracectl.yaml'), ...ANYWHERE];
  const child = spawn(process.execPath, argv, { cwd, stdio: ['ignore', 'inherit', 'inherit'] });
  t.teardown(() => child.kill('SIGKILL'));
  const [, signal] = await once(child, 'exit');
  if (signal !== 'SIGKILL') throw new Error('the start ended otherwise');
}

/** A start that fails behind the store: another server has the address of the admin API. */
async function failingStart(t: Test, cwd: string) {
  const taken = createServer().listen(0, '127.0.0.1');
  await once(taken, 'listening');
  t.teardown(() => taken.close());
  const { port } = taken.address() as AddressInfo;
  return startDaemon(t, cwd, `--set=extensions.admin.endpoint=127.0.0.1:${port}`);
}
