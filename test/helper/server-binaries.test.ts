import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import t from 'tap';
import type { Machine, ServerKind } from './server-binaries.ts';
import { givenServer, serverBinaries, sourceOf } from './server-binaries.ts';

/** A machine that has these files, and nothing else. */
function machine(files: readonly string[], more: Partial<Machine> = {}): Machine {
  return {
    env: { PATH: '/opt/bin:/usr/bin' },
    isExecutable: (file) => files.includes(file),
    list(directory) {
      const inside = files.filter((file) => file.startsWith(`${directory}/`));
      return [...new Set(inside.map((file) => file.split('/')[directory.split('/').length] ?? ''))];
    },
    isRoot: false,
    ...more,
  };
}

const programsIn = (directory: string) => [`${directory}/initdb`, `${directory}/postgres`];
const APT = '/usr/bin/apt-get';

t.test('finds programs on the PATH, in its order', async (t) => {
  const found = machine(['/usr/bin/redis-server', '/opt/bin/redis-server', APT], { isRoot: true });
  t.same(sourceOf('redis', found), { from: 'directory', directory: '/opt/bin' });
  const postgres = machine(programsIn('/usr/bin'));
  t.same(sourceOf('postgres', postgres), { from: 'directory', directory: '/usr/bin' });
});

t.test('finds Postgres in the directory of Debian, newest first', async (t) => {
  const versions = ['9', '15', '17'].map((version) => `/usr/lib/postgresql/${version}/bin`);
  const found = machine(versions.flatMap(programsIn));
  t.same(sourceOf('postgres', found), { from: 'directory', directory: versions[2] });
  const clientOnly = machine(['/usr/lib/postgresql/17/bin/psql', ...programsIn(versions[1] ?? '')]);
  t.same(sourceOf('postgres', clientOnly), { from: 'directory', directory: versions[1] });
});

t.test('installs missing servers as root on Debian', async (t) => {
  const debian = machine([APT], { isRoot: true });
  t.same(sourceOf('redis', debian), { from: 'apt', package: 'redis-server' });
  t.same(sourceOf('postgres', debian), { from: 'apt', package: 'postgresql' });
});

t.test('names the packages to install elsewhere, and the alternative', async (t) => {
  for (const nothing of [machine([APT]), machine([], { isRoot: true }), machine([], { env: {} })]) {
    t.match(sourceOf('redis', nothing), {
      from: 'nowhere',
      sentence:
        /^Redis is not installed.*redis-server on the PATH.*apt-get install redis-server.*TRACECTL_TEST_REDIS_URL/,
    });
    t.match(sourceOf('postgres', nothing), {
      from: 'nowhere',
      sentence:
        /^Postgres is not installed.*initdb and postgres.*apt-get install postgresql.*TRACECTL_TEST_POSTGRES_URL/,
    });
  }
});

t.test('uses the server of the variable', async (t) => {
  t.equal(givenServer('redis', { TRACECTL_TEST_REDIS_URL: 'redis://r' }), 'redis://r');
  t.equal(givenServer('postgres', { TRACECTL_TEST_POSTGRES_URL: 'postgres://p' }), 'postgres://p');
  for (const kind of ['redis', 'postgres'] satisfies ServerKind[]) {
    t.equal(givenServer(kind, {}), undefined);
    t.equal(
      givenServer(kind, { TRACECTL_TEST_REDIS_URL: '', TRACECTL_TEST_POSTGRES_URL: '' }),
      undefined,
    );
  }
});

t.test('a server ends with its parent process, also if that is killed', async (t) => {
  const helper = JSON.stringify(join(import.meta.dirname, 'server-binaries.ts'));
  const script = `import { spawnServer } from ${helper};
    const child = spawnServer('/bin/sleep', ['60'], { stdio: ['ignore', 'inherit', 'ignore'] });
    child.once('spawn', () => process.stdout.write('started'));`;
  const starter = spawn(process.execPath, ['--input-type=module-typescript', '-e', script]);
  await once(starter.stdout, 'data');
  // The server holds the other end of the pipe: it closes when both have ended.
  const ended = once(starter.stdout, 'close');
  starter.kill('SIGKILL');
  await ended;
  t.pass('no process is left');
});

t.test('this machine has both servers, or installs them', async (t) => {
  t.ok(serverBinaries('redis'));
  t.ok(serverBinaries('postgres'));
});
