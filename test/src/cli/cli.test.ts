import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { parse } from 'yaml';
import { watchProcess } from '../../../src/cli/process-events.ts';
import { runCli } from '../../../src/cli/program.ts';
import { table } from '../../../src/cli/table.ts';
import { workerCount } from '../../../src/cli/worker.ts';
import { createLogger } from '../../../src/telemetry/logger.ts';
import { daemonEntry } from '../../helper/daemon-bundle.ts';
import { PLAIN } from '../../helper/plain-process.ts';

// It starts forty daemons and commands one after the other, which takes long where many tests run at once.
t.setTimeout(300_000);

const ROOT = fileURLToPath(new URL('../../../', import.meta.url));
const EMBEDDED = join(ROOT, 'config', 'embedded.yaml');

type Test = { teardown(clean: () => unknown): unknown };

function workDirectory(t: Test): string {
  const directory = mkdtempSync(join(tmpdir(), 'tracectl-cli-'));
  t.teardown(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

/** Carries out a command line in this process. */
async function cli(
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
const ANYWHERE = [
  '--set=extensions.admin.endpoint=127.0.0.1:0',
  '--set=extensions.health_check.endpoint=127.0.0.1:0',
  '--set=receivers.native.endpoint=127.0.0.1:0',
  '--set=receivers.runs.endpoint=127.0.0.1:0',
  '--set=receivers.otlp.protocols.http.endpoint=127.0.0.1:0',
  '--set=receivers.otlp.protocols.grpc.endpoint=127.0.0.1:0',
  '--set=service.telemetry.metrics.level=none',
  '--set=extensions.sqlite.reserve_bytes=0',
];

/** The variables that the configurations require. */
const NEEDED = {
  SIDECAR_KEY: 'ws_a',
  GATEWAY: 'http://127.0.0.1:4318',
  GATEWAY_KEY: 'ws_b',
  UPSTREAM_KEY: 'ws_c',
  DATABASE_URL: 'postgres://127.0.0.1/none',
  REDIS_URL: 'redis://127.0.0.1/',
  TRACECTL_ADMIN_TOKEN: 'a-token-of-its-own',
};

t.test('validate accepts every configuration of the package', async (t) => {
  for (const name of readdirSync(join(ROOT, 'config'))) {
    const run = await cli(ROOT, ['validate', '--config', join('config', name)], NEEDED);
    t.same(run, { status: 0, out: '', err: '' }, name);
  }
});

t.test(
  'validate accepts every accepting configuration with its commented redaction block',
  async (t) => {
    const cwd = workDirectory(t);
    const names = readdirSync(join(ROOT, 'config')).filter((name) => name !== 'worker.yaml');
    for (const name of names) {
      const text = readFileSync(join(ROOT, 'config', name), 'utf8');
      const block = /\n {2}# redaction:\n(?: {2}# {3}.*\n)+/.exec(text)?.[0] ?? '';
      const active = text
        .replace(block, block.replaceAll('\n  # ', '\n  '))
        .replace('processors: [auth, ', 'processors: [auth, redaction, ');
      t.match(active, '\n  redaction:\n    rules: {phone: mask}\n', name);
      writeFileSync(join(cwd, name), active);
      const run = await cli(cwd, ['validate', '--config', name], NEEDED);
      t.same(run, { status: 0, out: '', err: '' }, name);
    }
  },
);

t.test('validate reports every error and exits with 78', async (t) => {
  const cwd = workDirectory(t);
  writeFileSync(join(cwd, 'a.yaml'), 'receivers:\n  natve:\nexporters:\n  debg:\n');
  const run = await cli(cwd, ['validate', '--config', 'a.yaml']);
  t.equal(run.status, 78);
  t.equal(run.out, '');
  t.match(run.err, 'a.yaml:2:3: error: receivers.natve: unknown type "natve"');
  t.match(run.err, 'did you mean "native"?');
  t.match(run.err, 'a.yaml:4:3: error: exporters.debg: unknown type "debg"');
  const json = await cli(cwd, ['validate', '--config', 'a.yaml', '--json']);
  t.equal(json.status, 78);
  const { valid, issues } = JSON.parse(json.out) as { valid: boolean; issues: { path: string }[] };
  t.notOk(valid);
  const natve = issues.find(({ path }) => path === 'receivers.natve');
  t.match(natve, { severity: 'error', at: 'a.yaml:2:3' });
});

t.test('run and keys exit with 78 when the configuration is not valid', async (t) => {
  const cwd = workDirectory(t);
  for (const command of [['run'], ['keys', 'list'], ['print-config'], ['reload']]) {
    const run = await cli(cwd, [...command, '--config', 'none.yaml']);
    t.equal(run.status, 78, command.join(' '));
    t.match(run.err, 'none.yaml: error: cannot be read: there is no such file');
  }
});

t.test('validate prints a warning on stderr and exits with 0', async (t) => {
  const set = '--set=exporters.debug.verbosity=basic';
  const run = await cli(ROOT, ['validate', '--config', EMBEDDED, set]);
  t.equal(run.status, 0);
  t.match(run.err, 'warning: exporters.debug: no pipeline names this exporter');
});

t.test('an invalid command line exits with 64', async (t) => {
  const cwd = workDirectory(t);
  for (const argv of [['bogus'], ['validate', '--nope'], ['validate'], ['keys', 'revoke'], []]) {
    const run = await cli(cwd, argv);
    t.equal(run.status, 64, argv.join(' '));
    t.not(run.err, '');
  }
  t.match((await cli(cwd, ['validat'])).err, 'Did you mean validate?');
  t.match(await cli(cwd, ['--version']), { status: 0, out: /^\d+\.\d+\.\d+$/, err: '' });
  t.match(await cli(cwd, ['run', '--help']), { status: 0, out: /--config/ });
});

t.test(
  'the help of every command that reads or erases has examples and no empty default',
  async (t) => {
    const cwd = t.testdir();
    const commands = [
      'traces',
      'trace',
      'stats',
      'sessions',
      'users',
      'export',
      'erase',
      'erasures',
    ];
    const pairs = [
      ['cost', 'recompute'],
      ['search', 'status'],
    ];
    for (const command of [...commands.map((name) => [name]), ...pairs]) {
      const { status, out } = await cli(cwd, [...command, '--help']);
      t.equal(status, 0, command.join(' '));
      t.match(out, new RegExp(`\\nExamples:\\n {2}tracectl ${command.join(' ')}`));
      t.match(out.replace(/\s+/g, ' '), /--config <file> [^-]*\(default: tracectl\.yaml\) --set/);
      t.notMatch(out, 'default: []');
      t.match(out, '--project <project>', command.join(' '));
    }
  },
);

t.test('refuses to start as a worker without a supervisor', async (t) => {
  const run = await cli(ROOT, ['run', '--config', EMBEDDED], { TRACECTL_WORKER: '3 of 2' });
  t.match(run, { status: 64, err: /TRACECTL_WORKER is reserved for the workers of a daemon/ });
});

t.test('workers: auto is one worker for each core', (t) => {
  t.equal(workerCount(3), 3);
  t.equal(workerCount('auto', 'linux'), availableParallelism());
  t.equal(workerCount('auto', 'darwin'), 1, 'a platform without shared ports');
  t.end();
});

t.test('init writes a valid file, and never overwrites one', async (t) => {
  const cwd = workDirectory(t);
  t.match(await cli(cwd, ['init']), { status: 0, out: /tracectl run$/ });
  t.match(await cli(cwd, ['validate']), { status: 0 });
  writeFileSync(join(cwd, 'mine.yaml'), 'mine');
  t.match(await cli(cwd, ['init', 'mine.yaml']), { status: 1, err: /exists and is left as it is/ });
  t.equal(readFileSync(join(cwd, 'mine.yaml'), 'utf8'), 'mine');
  const refused = (file: string, reason: string) => ({
    ...{ status: 1, out: '' },
    err: `error: ${file} cannot be written: its directory ${reason}`,
  });
  t.match(await cli(cwd, ['init', 'none/x.yaml']), refused('none/x.yaml', 'does not exist'));
  t.match(await cli(cwd, ['init', 'mine.yaml/x']), refused('mine.yaml/x', 'is a file'));
});

t.test(
  'print-config shows the configuration in force, in YAML or JSON, without values from outside',
  async (t) => {
    const env = { TRACECTL_DATA: '/somewhere/private' };
    const yaml = await cli(ROOT, ['print-config', '--config', EMBEDDED], env);
    const json = await cli(ROOT, ['print-config', '--config', EMBEDDED, '--format', 'json'], env);
    t.equal(yaml.status, 0);
    t.same(parse(yaml.out), JSON.parse(json.out));
    t.match(JSON.parse(json.out), {
      extensions: { sqlite: { directory: '[REDACTED]' } },
      service: { shutdown_timeout: '20s' },
    });
  },
);

t.test('components and schema name every built-in component', async (t) => {
  const listed = JSON.parse((await cli(ROOT, ['components', '--json'])).out);
  t.match(listed, { receivers: [{ type: 'native' }, { type: 'runs' }, { type: 'otlp' }] });
  t.same(parse((await cli(ROOT, ['components'])).out), listed);
  const schema = (await cli(ROOT, ['schema'])).out;
  t.match(JSON.parse(schema), { properties: { service: { type: ['object', 'null'] } } });
  for (const section of ['receivers', 'processors', 'connectors', 'exporters', 'extensions']) {
    for (const { type } of listed[section]) t.match(schema, new RegExp(`"\\^\\(${type}[|)]`), type);
  }
});

t.test('keys opens the store when no daemon runs', async (t) => {
  const cwd = workDirectory(t);
  const options = ['--config', EMBEDDED, ...ANYWHERE];
  const env = { TRACECTL_DATA: join(cwd, 'data') };
  const first = await cli(cwd, ['keys', 'create', '--json', ...options], env);
  t.equal(first.status, 0);
  const { id, token } = JSON.parse(first.out) as { id: string; token: string };
  t.match(token, /^ws_/);
  t.match(first.err, `a key in the file ${join(cwd, 'data', 'first-key')}.`);
  t.match(readFileSync(join(cwd, 'data', 'first-key'), 'utf8'), /^ws_\w+\n$/);
  const second = await cli(cwd, ['keys', 'create', ...options], env);
  t.match(second, { status: 0, out: /^ws_\w+$/, err: /keep the token/ });
  t.match(await cli(cwd, ['keys', 'revoke', id, ...options], env), { status: 0 });
  const listed = await cli(cwd, ['keys', 'list', '--json', ...options], env);
  t.notMatch(listed.out, token);
  const { keys } = JSON.parse(listed.out) as { keys: { id: string; revoked_at: string | null }[] };
  t.same(
    keys.filter((key) => key.revoked_at !== null).map((key) => key.id),
    [id],
  );
  t.match(await cli(cwd, ['keys', 'revoke', 'key_none', ...options], env), {
    status: 1,
    err: /^error: /,
  });
  t.match(await cli(cwd, ['keys', 'create', '--project', 'x', ...options], env), { status: 1 });
  t.match(await cli(cwd, ['reload', ...options], env), { status: 1, err: /no daemon runs/ });
});

t.test('projects delete asks for the name of the project', async (t) => {
  const cwd = workDirectory(t);
  const options = ['--config', EMBEDDED, ...ANYWHERE];
  const env = { TRACECTL_DATA: join(cwd, 'data') };
  await cli(cwd, ['projects', 'create', 'short', ...options], env);
  const remove = ['projects', 'delete', 'short', ...options];
  t.match(await cli(cwd, remove, env), { status: 64, err: /--yes/ });
  const no = await cli(cwd, remove, env, async () => 'yes');
  t.match(no, { status: 1, err: /deletes short .* cannot be undone\.\n.*nothing was deleted/ });
  const yes = await cli(cwd, remove, env, async () => 'short');
  t.match(yes, { status: 0, out: /^Deleted proj_\w+\.$/ });
  const last = await cli(cwd, ['projects', 'delete', 'default', '--yes', ...options], env);
  t.match(last, { status: 1, err: /^error: .*last/ });
  const listed = JSON.parse((await cli(cwd, ['projects', 'list', '--json', ...options], env)).out);
  t.match(listed.projects, [{ name: 'default' }]);
});

t.test('validate finds two listeners on one address, including the admin API', async (t) => {
  const set = '--set=extensions.admin.endpoint=127.0.0.1:4318';
  const run = await cli(ROOT, ['validate', '--config', EMBEDDED, set]);
  t.match(run, {
    status: 78,
    err: /admin\.endpoint: 127\.0\.0\.1:4318 is taken by receivers\.native/,
  });
});

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
  while (!existsSync(pid)) await new Promise((resolve) => setImmediate(resolve));
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

function startDaemon(t: Test, cwd: string, ...more: readonly string[]) {
  return startFrom(t, cwd, daemonEntry(), { ...process.env, ...PLAIN }, more);
}

/** With coverage, which a start from the bundles does not have, for twice the CPU. */
function startMeasured(t: Test, cwd: string) {
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
      while (!existsSync(join(cwd, 'data', 'control.sock'))) {
        await new Promise((resolve) => setImmediate(resolve));
      }
    },
  };
}

function collect(child: ChildProcess, name: 'stdout' | 'stderr') {
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

t.test('signals', async (t) => {
  const quiet = createLogger({
    level: 'error',
    repeated_lines: 100,
    encoding: 'json',
    write: () => {},
  });
  const isPending = async (promise: Promise<unknown>) =>
    (await Promise.race([promise, new Promise((resolve) => setImmediate(resolve, 'pending'))])) ===
    'pending';

  await t.test(
    'a second signal within a second is ignored, a later one ends the process',
    async (t) => {
      let now = 1000;
      const events = watchProcess(quiet, () => now);
      t.teardown(() => events.close());
      t.ok(await isPending(events.ended));
      process.emit('SIGINT', 'SIGINT');
      t.equal(await events.ended, 0);
      now += 900;
      process.emit('SIGTERM', 'SIGTERM');
      t.ok(await isPending(events.cutShort));
      now += 200;
      process.emit('SIGTERM', 'SIGTERM');
      t.equal(await events.cutShort, 128 + 15);
    },
  );

  await t.test('a signal ends process 1 of a container while it loads modules', async (t) => {
    const script = (further: string) => `
      import { endWhileLoading } from './src/cli/first-process.ts';
      // Those who measure coverage listen too.
      process.removeAllListeners('SIGTERM');
      endWhileLoading((status) => process.exit(status), 1);
      ${further}
      setInterval(() => {}, 1000);
      console.log('loaded');`;
    const outcome = async (further: string) => {
      const argv = ['--input-type=module', '-e', script(further)];
      const child = spawn(process.execPath, argv, { cwd: ROOT });
      await once(child.stdout, 'data');
      child.kill('SIGTERM');
      return once(child, 'close');
    };
    t.same(await outcome(''), [128 + 15, null], 'by a handler, not by the signal');
    const listener = `process.on('SIGTERM', () => setImmediate(() => process.exit(7)));`;
    t.same(await outcome(listener), [7, null], 'the listener decides');
  });

  await t.test('an uncaught exception is logged and exits with 70', async (t) => {
    const script = `
      import { watchProcess } from './src/cli/process-events.ts';
      import { createLogger } from './src/telemetry/logger.ts';
      const logger = createLogger({ level: 'info', repeated_lines: 100, encoding: 'json', write: console.log });
      const events = watchProcess(logger);
      setInterval(() => {}, 1000);
      Promise.reject(new Error('boom'));
      process.exit(await events.ended);`;
    const child = spawn(process.execPath, ['--input-type=module', '-e', script], { cwd: ROOT });
    const stdout = collect(child, 'stdout');
    t.same(await once(child, 'close'), [70, null]);
    t.match(stdout.text(), /Uncaught exception/);
    t.match(stdout.text(), /boom/);
  });

  await t.test('a component that ends the process names the exit status', async (t) => {
    const events = watchProcess(quiet);
    t.teardown(() => events.close());
    events.fail(75);
    events.fail(70);
    t.equal(await events.ended, 75, 'the first one');
    t.ok(await isPending(events.cutShort), 'the process has time to stop');
  });

  await t.test('SIGHUP reloads the configuration', async (t) => {
    const events = watchProcess(quiet);
    t.teardown(() => events.close());
    let reloads = 0;
    events.onReload(() => {
      reloads += 1;
    });
    process.emit('SIGHUP', 'SIGHUP');
    t.equal(reloads, 1);
    t.ok(await isPending(events.ended));
  });
});

t.test('a table replaces control characters in cells', async (t) => {
  const shown = table(['ID'], [['a\u001b[2Jb\n\u009bc']]);
  t.equal(shown, 'ID\na\ufffd[2Jb\ufffd\ufffdc');
  t.equal(table(['ID'], [['\u202egnp.exe']]), 'ID\n\ufffdgnp.exe');
});

t.test('a table aligns wide characters, and one long cell moves no other line', async (t) => {
  const long = 'x'.repeat(100);
  const rows = [
    ['サーバー', '1'],
    ['ｱｲ', '22'],
    [long, '3'],
  ];
  t.equal(
    table(['ID', 'N'], rows, ['N']),
    [
      `ID${' '.repeat(62)}   N`,
      `サーバー${' '.repeat(56)}   1`,
      `ｱｲ${' '.repeat(62)}  22`,
      `${long}   3`,
    ].join('\n'),
  );
});
