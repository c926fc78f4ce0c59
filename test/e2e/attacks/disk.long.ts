import {
  cpSync,
  existsSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
} from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import t from 'tap';
import { send } from '../client.ts';
import { startDaemon } from '../daemon.ts';
import {
  around,
  type Damage,
  dataOf,
  endOf,
  overwrite,
  PAGE,
  removeData,
  sendOne,
} from './damage.ts';

/** Damage to the files below a running or stopped daemon, with a client that must not lose what was acknowledged. */

t.setTimeout(600_000);

t.test('an idle daemon notices that its data directory is gone', async (t) => {
  const daemon = await startDaemon(t);
  removeData(daemon);
  t.equal(await endOf(daemon), 66);
});

t.test(
  'a data directory that is replaced while it is in use ends the daemon, and stays as it is',
  async (t) => {
    const daemon = await startDaemon(t);
    const aside = `${dataOf(daemon)}-aside`;
    t.equal(await sendOne(daemon, 'before'), 202);
    const files = ['store.db', 'store.db-wal', 'store.pid'];
    let copies: Buffer[] = [];
    const { after } = await around(daemon, () => {
      renameSync(dataOf(daemon), aside);
      cpSync(aside, dataOf(daemon), { recursive: true, filter: (path) => !path.endsWith('.sock') });
      copies = files.map((name) => readFileSync(join(dataOf(daemon), name)));
    });
    t.notOk(after[202], 'nothing is acknowledged that is lost');
    t.equal(await endOf(daemon), 66);
    for (const [i, name] of files.entries()) {
      t.ok(readFileSync(join(dataOf(daemon), name)).equals(copies[i] ?? Buffer.alloc(0)), name);
    }
    removeData(daemon);
    renameSync(aside, dataOf(daemon));
    await daemon.start();
    const read = await daemon.call({ path: '/api/v1/traces/before' });
    t.equal(read.status, 200, 'the directory that was put back has everything');
  },
);

const LOST_AT_REST: Record<string, Damage> = {
  'the first page is zeroed': (directory) => overwrite(join(directory, 'store.db'), 0, PAGE),
  'the file is cut to its first page': (directory) =>
    truncateSync(join(directory, 'store.db'), PAGE),
  'the file is empty': (directory) => truncateSync(join(directory, 'store.db'), 0),
  'the file is gone': (directory) => rmSync(join(directory, 'store.db')),
};

for (const [name, damage] of Object.entries(LOST_AT_REST)) {
  t.test(`${name}: no start makes a new store of it`, async (t) => {
    const daemon = await startDaemon(t);
    const { key } = daemon;
    t.equal(await sendOne(daemon, 'kept'), 202);
    await daemon.end('SIGTERM');
    damage(dataOf(daemon));
    const file = join(dataOf(daemon), 'store.db');
    const damaged = existsSync(file) ? readFileSync(file) : Buffer.alloc(0);
    for (const attempt of ['first', 'second']) {
      await t.rejects(
        daemon.start(),
        /"tracectl salvage"/,
        `the ${attempt} start names the remedy`,
      );
      t.equal(await endOf(daemon), 74);
      t.equal(daemon.stdout(), '', 'no key is printed');
    }
    t.ok(readFileSync(file).equals(damaged), 'the file is unchanged');
    const salvaged = await daemon.cli('salvage');
    t.equal(salvaged.code, 0);
    t.match(salvaged.stdout, /is kept: .*store\.db\.corrupt-/);
    t.match(salvaged.stdout, /with a new key/);
    await daemon.start();
    t.not(daemon.key, key, 'only the salvage makes a new store');
  });
}

t.test('commits behind damage in the log are counted at the start', async (t) => {
  const daemon = await startDaemon(t);
  for (let i = 0; i < 30; i++) t.equal(await sendOne(daemon, `e${i}`), 202);
  await daemon.end('SIGKILL');
  const log = join(dataOf(daemon), 'store.db-wal');
  const { size } = statSync(log);
  const damagedAt = 32 + Math.floor(size / (PAGE + 24) / 2) * (PAGE + 24);
  overwrite(log, damagedAt + 100, damagedAt + 200, 0xaa);
  await daemon.start();
  t.match(daemon.stderr(), /commits behind the damage lost/);
  const verbose = await send(daemon.health, { path: '/readyz?verbose' });
  t.match(verbose.body.toString(), /commits behind the damage are lost/);
  const names = readdirSync(dataOf(daemon));
  t.ok(
    names.some((name) => name.startsWith('store.db-wal.corrupt-')),
    'the log is kept',
  );
});

t.test('damage that leaves projects and keys readable is salvaged at the start', async (t) => {
  const daemon = await startDaemon(t);
  const { key } = daemon;
  const large = 'x'.repeat(20_000);
  for (let i = 0; i < 20; i++) t.equal(await sendOne(daemon, `e${i}`, large), 202);
  await daemon.end('SIGTERM');
  const file = join(dataOf(daemon), 'store.db');
  truncateSync(file, statSync(file).size - PAGE);
  await daemon.start();
  t.equal(daemon.key, key);
  t.equal(await sendOne(daemon, 'after'), 202, 'the key is valid');
  t.match(daemon.stderr(), /Database damaged; set aside/);
});

t.test('damage that is found while the daemon runs shows in its health and metrics', async (t) => {
  const daemon = await startDaemon(t);
  t.equal(await sendOne(daemon, 'one'), 202);
  await daemon.end('SIGTERM');
  const file = join(dataOf(daemon), 'store.db');
  const db = new DatabaseSync(file, { readOnly: true });
  const root = Number(
    db.prepare("SELECT rootpage FROM sqlite_schema WHERE name = 'traces'").get()?.rootpage,
  );
  db.close();
  overwrite(file, (root - 1) * PAGE, root * PAGE);
  await daemon.start();
  t.equal((await daemon.call({ path: '/api/v1/traces' })).status, 503);
  const verbose = await send(daemon.health, { path: '/readyz?verbose' });
  t.match(verbose.body.toString(), /The file is damaged .*tracectl salvage/);
  const damaged = (await daemon.metrics()).find(({ name }) => name === 'tracectl_storage_damaged');
  t.match(damaged, { value: 1, labels: { extension: 'sqlite' } });
  await daemon.end('SIGTERM');
  const salvaged = await daemon.cli('salvage', '--json');
  t.equal(salvaged.code, 0);
  t.match(JSON.parse(salvaged.stdout), [{ startsAnew: false, tables: Array }]);
  await daemon.start();
  t.equal((await daemon.call({ path: '/api/v1/traces' })).status, 200, 'it is readable again');
});
