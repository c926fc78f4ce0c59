import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { parse } from 'yaml';
import { workerCount } from '../../../src/cli/worker.ts';
import { ANYWHERE, cli, EMBEDDED, ROOT, workDirectory } from './cli.ts';

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

t.test('usage history takes dates, and times with their offset', async (t) => {
  const cwd = workDirectory(t);
  const env = { TRACECTL_DATA: join(cwd, 'data') };
  const history = (from: string) => {
    const range = ['--from', from, '--to', '2026-03-01'];
    return cli(cwd, ['usage', 'history', ...range, '--config', EMBEDDED, ...ANYWHERE], env);
  };
  for (const from of ['2026-02-28', '2026-02-28T08:00:00+02:00']) {
    t.match(await history(from), { status: 0 }, from);
  }
  // A day that does not exist, a time of an unknown zone, and a number that `Date.parse` takes for a year.
  const wrong = { status: 64, err: /from must be an ISO 8601 date, or date and time with offset/ };
  for (const from of ['2026-02-30', '2026-02-28T08:00', '5', 'yesterday']) {
    t.match(await history(from), wrong, from);
  }
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
