import { execFileSync, spawnSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { Test } from 'tap';
import t from 'tap';
import { openDatabase } from '../../../src/sqlite/database.ts';
import { openDirectory } from '../../../src/sqlite/directory.ts';
import { fakeClock } from '../../helper/clock.ts';
import { recordingLogger } from '../../helper/settings.ts';
import { until } from '../../helper/until.ts';

async function open(t: Test, directory: string, reserveBytes = 0, maxPages?: number) {
  const clock = fakeClock();
  const logger = recordingLogger();
  let removed = 0;
  const database = await openDatabase<typeof import('./statements.ts')>({
    ...{ directory, name: 'test', createDirectory: true, minFreeBytes: 0, reserveBytes },
    operations: new URL('./statements.ts', import.meta.url),
    clock,
    logger,
    onRemoved: () => removed++,
    ...(maxPages === undefined ? {} : { maxPages }),
  });
  t.teardown(() => database.close());
  return { database, clock, logger, removed: () => removed };
}

function modeOf(path: string): number {
  return statSync(path).mode & 0o7777;
}

t.test('removes the write permission of other users, and says so', async (t) => {
  for (const [mode, expected] of [
    [0o775, 0o755],
    [0o757, 0o755],
    [0o777, 0o755],
    [0o2770, 0o2750],
  ] as const) {
    const directory = join(t.testdir({}), 'data');
    mkdirSync(directory);
    chmodSync(directory, mode);
    const { database, logger } = await open(t, directory);
    t.equal(modeOf(directory), expected, mode.toString(8));
    const warning = 'Data directory was writable for other users; permission removed';
    t.match(logger.lines, [{ level: 'warn', message: warning }]);
    await database.close();
  }
});

t.test('leaves a directory that only its owner may write to as it is', async (t) => {
  for (const mode of [0o700, 0o755]) {
    const directory = join(t.testdir({}), 'data');
    mkdirSync(directory, { mode });
    const { database, logger } = await open(t, directory);
    t.equal(modeOf(directory), mode);
    t.same(logger.lines, []);
    await database.close();
  }
});

t.test('names the lock that SQLite cannot open', async (t) => {
  // SQLite opens no path of more than 512 bytes.
  const names = ['x', 'y', 'z'].map((letter) => letter.repeat(200));
  const directory = join(t.testdir({}), ...names);
  await t.rejects(open(t, directory), { message: /test\.lock cannot be locked: unable to open/ });
});

t.test('names the file for whose tables the disk has no room', async (t) => {
  const directory = join(t.testdir({}), 'data');
  await t.rejects(open(t, directory, 0, 1), {
    code: 'disk_full',
    message: `no space is left on the disk of ${join(directory, 'test.db')}: free some`,
  });
});

t.test('names the directory in which it can make no file', async (t) => {
  const directory = '/proc/self/fd';
  if (!existsSync(directory)) return;
  await t.rejects(open(t, directory), { message: /^data directory \/proc\/self\/fd cannot be/ });
});

t.test('refuses a directory that users share, and does not change its mode', async (t) => {
  const directory = join(t.testdir({}), 'shared');
  mkdirSync(directory);
  chmodSync(directory, 0o1777);
  await t.rejects(open(t, directory), {
    message: /cannot be used: other users may write to it \(mode 1777\)\. .*chmod go-w/,
  });
  t.equal(modeOf(directory), 0o1777);
});

t.test('refuses links in the place of its files, and touches no target', async (t) => {
  for (const ending of ['.db', '.db-wal', '.db-shm', '.lock', '.pid', '.filled', '.reserve']) {
    for (const content of ['precious', undefined]) {
      const place = t.testdir({ data: {} });
      const directory = join(place, 'data');
      chmodSync(directory, 0o700);
      const target = join(place, 'target');
      if (content !== undefined) writeFileSync(target, content);
      symlinkSync(target, join(directory, `test${ending}`));
      await t.rejects(
        open(t, directory, 1024),
        { message: /test\.\S+ is a symbolic link/ },
        ending,
      );
      if (content === undefined) t.notOk(existsSync(target), `${ending}: no file is made`);
      else t.equal(readFileSync(target, 'utf8'), content, `${ending}: the target is unchanged`);
    }
  }
});

t.test('opens a directory that is itself a link', async (t) => {
  const place = t.testdir({});
  mkdirSync(join(place, 'real'), { mode: 0o700 });
  symlinkSync(join(place, 'real'), join(place, 'link'));
  const { database } = await open(t, join(place, 'link'));
  t.equal(await database.write('add', [1]), 2);
});

for (const [name, change] of Object.entries<(directory: string) => void>({
  'the directory is removed': (directory) => rmSync(directory, { recursive: true }),
  'the directory is renamed': (directory) => renameSync(directory, `${directory}-2`),
  'the database is removed': (directory) => rmSync(join(directory, 'test.db')),
  'the log is removed': (directory) => rmSync(join(directory, 'test.db-wal')),
  'the log is replaced': (directory) => {
    const log = join(directory, 'test.db-wal');
    const content = readFileSync(log);
    rmSync(log);
    writeFileSync(`${log}-2`, '');
    writeFileSync(log, content);
  },
})) {
  t.test(`${name}: the next write is refused`, async (t) => {
    const directory = join(t.testdir({}), 'data');
    const { database, removed } = await open(t, directory);
    t.equal(await database.write('add', [1]), 2);
    t.equal(database.shortage(), undefined);
    change(directory);
    await t.rejects(database.write('add', [2]), { code: 'storage_failed' });
    t.equal(removed(), 1);
    t.match(database.shortage(), { name: 'RetryableError', code: 'storage_failed' });
    t.match(database.health(), { ready: false, healthy: false, message: /removed or replaced/ });
    await t.rejects(database.write('add', [3]), { code: 'storage_failed' });
    t.equal(removed(), 1, 'reported once');
  });

  t.test(`${name}: an idle database notices within a second`, async (t) => {
    const directory = join(t.testdir({}), 'data');
    const { database, clock, removed } = await open(t, directory);
    await database.write('add', [1]);
    change(directory);
    clock.advance(999);
    t.equal(removed(), 0, 'the first look is after a second');
    clock.advance(1);
    await until(() => removed() === 1);
    t.match(database.health(), { ready: false });
  });
}

t.test('a database in its place stays open, however often it is looked at', async (t) => {
  const { database, clock, removed } = await open(t, join(t.testdir({}), 'data'));
  for (let i = 0; i < 5; i++) {
    clock.advance(1000);
    t.equal(await database.write('add', [i]), i * 2);
    await database.truncateLog();
  }
  t.equal(removed(), 0);
  t.match(database.health(), { ready: true, healthy: true, details: { damage: null } });
});

t.test(
  'replaces the pid file that a killed command of root left',
  { skip: process.getuid?.() === 0 ? false : 'only root can become another user' },
  async (t) => {
    const nobody = 65_534;
    const directory = mkdtempSync(join(tmpdir(), 'tracectl-directory-'));
    t.teardown(() => rmSync(directory, { recursive: true }));
    writeFileSync(join(directory, 'test.pid'), '1', { mode: 0o600 });
    chownSync(directory, nobody, nobody);
    const options = {
      ...{ directory, name: 'test', createDirectory: false, minFreeBytes: 0, reserveBytes: 0 },
      ...{ clock: fakeClock(), logger: recordingLogger() },
    };
    process.seteuid?.(nobody);
    try {
      const owned = await openDirectory(options);
      t.equal(readFileSync(join(directory, 'test.pid'), 'utf8'), String(process.pid));
      await owned.close();
    } finally {
      process.seteuid?.(0);
    }
  },
);

t.test('closing does not remove the pid file of the daemon that took the place', async (t) => {
  const directory = join(t.testdir({}), 'data');
  const first = await open(t, directory);
  await first.database.write('add', [1]);
  renameSync(directory, `${directory}-2`);
  const second = await open(t, directory);
  await second.database.write('add', [7]);
  await first.database.close();
  t.ok(existsSync(join(directory, 'test.pid')));
  t.same(await second.database.read('all', []), [7]);
});

t.test('names a lock file that cannot be locked, instead of another daemon', async (t) => {
  const directory = t.testdir({ 'test.lock': 'no database '.repeat(100) });
  await t.rejects(open(t, directory), /test\.lock cannot be locked: file is not a database$/);
});

t.test('names the file that SQLite cannot open', async (t) => {
  const directory = t.testdir({});
  const foreign = new DatabaseSync(join(directory, 'test.db'));
  foreign.exec('CREATE VIEW numbers AS SELECT 1 AS value');
  foreign.close();
  await t.rejects(open(t, directory), /\/test\.db cannot be opened: cannot modify numbers/);
});

/** A namespace in which this user may mount. */
const NAMESPACE = ['--user', '--map-root-user', '--mount'];
const mayMount = spawnSync('unshare', [...NAMESPACE, 'true']).status === 0;
const skip = mayMount ? false : 'the system permits no mount';

t.test('opens on a disk without a free byte, by its reserve', { skip }, async (t) => {
  const root = join(import.meta.dirname, '../../..');
  const disk = join(t.testdir({ disk: {} }), 'disk');
  const script = `
    import { existsSync, writeFileSync } from 'node:fs';
    import { openDatabase } from '${root}/src/sqlite/database.ts';
    import { systemClock } from '${root}/src/component/clock.ts';
    import { recordingLogger } from '${root}/test/helper/settings.ts';
    const logger = recordingLogger();
    const reserve = '${disk}/test.reserve';
    const open = () => openDatabase({
      ...{ directory: '${disk}', name: 'test', createDirectory: false, minFreeBytes: 1, reserveBytes: 1048576 },
      ...{ operations: new URL('file:${root}/test/src/sqlite/statements.ts'), clock: systemClock, logger },
    });
    const first = await open();
    await first.write('add', [1]);
    await first.close();
    const hadReserve = existsSync(reserve);
    for (let size = 65536, n = 0; size > 0; n++) {
      try {
        writeFileSync('${disk}/filling' + n, Buffer.alloc(size));
      } catch {
        size >>= 1;
      }
    }
    const second = await open();
    const messages = logger.lines.map(({ message }) => message);
    console.log(JSON.stringify([hadReserve, existsSync(reserve), await second.read('all', []), messages]));
    process.exit();
  `;
  writeFileSync(`${disk}.ts`, script);
  const mounting = 'mount -t tmpfs -o size=4m,mode=700 tmpfs "$0" && exec "$1" "$0.ts"';
  const args = [...NAMESPACE, 'sh', '-c', mounting, disk, process.execPath];
  const [hadReserve, hasReserve, rows, messages] = JSON.parse(
    execFileSync('unshare', args, { encoding: 'utf8' }),
  );
  t.same([hadReserve, hasReserve, rows], [true, false, [1]]);
  t.ok(messages.includes('Disk is full; reserve released to open the database'));
});
