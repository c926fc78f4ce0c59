import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setImmediate } from 'node:timers/promises';
import type { Test } from 'tap';
import t from 'tap';
import { openDatabase } from '../../../src/sqlite/database.ts';
import { readProbeOperation } from '../../../src/sqlite/maintenance.ts';
import { fakeClock } from '../../helper/clock.ts';
import { recordingLogger } from '../../helper/settings.ts';
import { advanceUntil, until } from '../../helper/until.ts';
import { REFUSED, UNREADABLE } from './statements.ts';

/** A disk that takes no writes for another reason than a lack of room, or that reads nothing: the health of the database names it. */

/** SQLite's extended result codes. */
const READONLY = 8;
const CORRUPT = 11;
const IOERR_READ = 266;
const IOERR_SHORT_READ = 522;
const IOERR_WRITE = 778;
const IOERR_FSYNC = 1034;
const IOERR_SHMSIZE = 4874;
const FULL = 13;

const IDLE_MS = 15_000;

async function open(t: Test) {
  const [clock, logger] = [fakeClock(), recordingLogger()];
  const directory = t.testdir({});
  const database = await openDatabase<typeof import('./statements.ts')>({
    directory,
    name: 'test',
    createDirectory: true,
    minFreeBytes: 0,
    reserveBytes: 0,
    operations: new URL('./statements.ts', import.meta.url),
    ...{ clock, logger },
    // Other programs write to the disk of the test.
    completedWrites: () => undefined,
  });
  t.teardown(() => database.close());
  const logged = (message: string) => logger.lines.filter((line) => line.message === message);
  return { database, clock, logged, file: join(directory, 'test.db') };
}

for (const [name, errcode] of Object.entries({ IOERR_WRITE, READONLY })) {
  t.test(`is not ready while writes fail with ${name}, and tries until they succeed`, async (t) => {
    const { database, clock, logged } = await open(t);
    t.match(database.health(), { ready: true, healthy: true });
    await database.write('refuseWrites', [errcode]);
    for (let i = 0; i < 3; i++) {
      await t.rejects(database.write('add', [i]), { code: 'storage_failed' });
    }
    const message = 'The files cannot be written: refused by the disk.';
    t.match(database.health(), { ready: false, healthy: false, message });
    t.equal(database.shortage(), undefined, 'requests are tried: the first one may succeed');
    const [line, ...more] = logged('Database cannot be written; retrying');
    t.match(line, { level: 'error', fields: { err: 'refused by the disk' } });
    t.same(more, [], 'one line for each time');

    clock.advance(1000);
    await database.read('all', []);
    t.equal(database.health().ready, false, 'a probe that fails is repeated');
    await database.write('refuseWrites', [0]);
    t.equal(database.health().ready, false);
    await advanceUntil(clock, 1000, () => database.health().ready);
    t.match(database.health(), { ready: true, healthy: true });
    t.equal(logged('Database can be written again').length, 1);
    t.equal(await database.write('add', [7]), 14);
  });
}

t.test('takes a refused row and a full disk for no failing disk', async (t) => {
  const { database } = await open(t);
  await database.write('add', [1]);
  await t.rejects(database.write('add', [1]), { code: 'storage_refused' });
  for (const code of [FULL, IOERR_SHMSIZE]) {
    await t.rejects(database.write('failWith', [code]), { code: 'disk_full' });
  }
  t.match(database.health(), { ready: true, healthy: true });
});

t.test('takes a part of the file that cannot be read for no failing disk', async (t) => {
  const { database, logged } = await open(t);
  await database.write('add', [1]);
  for (let i = 0; i < 3; i++) {
    await t.rejects(database.write('failWith', [IOERR_READ]), { code: 'storage_failed' });
    t.equal(database.health().ready, true);
    await database.write('add', [2 + i]);
  }
  t.match(database.health(), { ready: true, healthy: true });
  t.same(logged('Database cannot be written; retrying'), []);
});

for (const [name, errcode] of Object.entries({ CORRUPT, IOERR_READ, IOERR_SHORT_READ })) {
  t.test(`a call that fails with ${name} fails no other call of its group`, async (t) => {
    const { database, clock } = await open(t);
    for (let i = 0; i < 3; i++) {
      const group = await Promise.allSettled([
        database.write('add', [2 * i]),
        database.write('failWith', [errcode]),
        database.write('add', [2 * i + 1]),
      ]);
      t.match(group, [
        { status: 'fulfilled' },
        { reason: { code: 'storage_failed' } },
        { status: 'fulfilled' },
      ]);
      clock.advance(1000);
    }
    t.same(await database.read('all', []), [0, 1, 2, 3, 4, 5]);
    t.equal(database.health().ready, true);
  });

  t.test(`is not ready while every write fails with ${name}`, async (t) => {
    const { database, clock } = await open(t);
    await database.write('refuseWrites', [errcode]);
    await t.rejects(database.write('add', [1]), { code: 'storage_failed' });
    await advanceUntil(clock, 0, () => !database.health().ready);
    const message = 'The files cannot be written: refused by the disk.';
    t.match(database.health(), { ready: false, healthy: false, message });
    await database.write('refuseWrites', [0]);
    await advanceUntil(clock, 1000, () => database.health().ready);
    t.match(database.health(), { healthy: true });
    t.equal(await database.write('add', [7]), 14);
  });
}

t.test('a failing disk fails the rest of a group at once', async (t) => {
  const { database } = await open(t);
  const group = await Promise.allSettled([
    database.write('failWith', [IOERR_READ]),
    database.write('add', [1]),
    database.write('failWith', [IOERR_WRITE]),
    database.write('add', [2]),
  ]);
  t.match(group, [
    { reason: { message: `it fails with ${IOERR_READ}` } },
    { status: 'fulfilled' },
    { reason: { message: `it fails with ${IOERR_WRITE}` } },
    { reason: { message: `it fails with ${IOERR_WRITE}` } },
  ]);
  t.same(await database.read('all', []), [1]);
});

for (const [name, errcode] of Object.entries({ CORRUPT, IOERR_READ })) {
  t.test(`a disk that is slow to fail with ${name} holds up no later group`, async (t) => {
    const { database } = await open(t);
    const group = await Promise.allSettled([
      database.write('failLate', [errcode, 1500]),
      database.write('add', [1]),
      database.write('failLate', [errcode, 1500]),
      database.write('add', [2]),
      database.write('failLate', [errcode, 1500]),
    ]);
    t.same(
      group.map(({ status }) => status),
      ['rejected', 'fulfilled', 'rejected', 'rejected', 'rejected'],
    );
    t.match(group[3], { reason: { code: 'storage_failed' } });
    t.equal(await database.write('add', [3]), 6);
    t.same(await database.read('all', []), [1, 3]);
  });
}

t.test('is not ready while a write does not end, and goes on when it does', async (t) => {
  const { database, clock, logged } = await open(t);
  const memory = new SharedArrayBuffer(4);
  const stalled = database.write('stall', [memory]);
  const waiting = database.write('add', [1]);
  const seconds = async (count: number) => {
    for (let i = 0; i < count; i++) {
      await setImmediate();
      clock.advance(1000);
      await setImmediate();
    }
  };
  await seconds(9);
  clock.advance(3_600_000);
  await setImmediate();
  // The hour without a turn of the event loop is one look.
  t.match([database.health().ready, database.shortage()], [true, undefined], 'a busy disk');
  await seconds(2);
  const message = 'A write to the files has not ended for 10 s.';
  t.match(database.health(), { ready: false, healthy: false, message });
  t.match(database.shortage(), { code: 'storage_failed', retryAfterMs: 5000 });
  await seconds(20);
  const lines = logged('Write to the database does not end; other writes wait');
  t.match(lines, [{ level: 'error' }], 'one line for each time');
  t.equal(lines.length, 1);

  Atomics.store(new Int32Array(memory), 0, 1);
  Atomics.notify(new Int32Array(memory), 0);
  await stalled;
  t.equal(await waiting, 2, 'what waited is written');
  t.match(database.health(), { ready: true, healthy: true });
  t.equal(database.shortage(), undefined);
  t.equal(logged('Write to the database has ended').length, 1);
});

t.test('asks for a restart after a failed sync', async (t) => {
  const { database, logged } = await open(t);
  await database.write('add', [1]);
  await t.rejects(database.write('failWith', [IOERR_FSYNC]), { code: 'storage_failed' });
  await t.rejects(database.write('add', [2]), { code: 'storage_failed' }, 'it writes no more');
  const message = 'A sync of the files failed (it fails with 1034): restart the daemon.';
  t.match(database.health(), { ready: false, healthy: false, message });
  t.match(database.shortage(), { code: 'storage_failed', retryAfterMs: 5000 });
  t.equal(logged('Sync of the database failed; restart the daemon').length, 1);
  t.same(await database.read('all', []), [1], 'it can be read');
});

for (const [name, errcode] of Object.entries({ CORRUPT, IOERR_READ })) {
  t.test(`is not ready while every read fails with ${name}`, async (t) => {
    const { database, clock, logged } = await open(t);
    await database.read('refuseReads', [errcode]);
    for (let i = 0; i < 3; i++) {
      await t.rejects(database.read('failWith', [errcode]), { code: 'storage_failed' });
    }
    await advanceUntil(clock, 0, () => !database.health().ready);
    const message = /^The files cannot be read: (refused by the disk|it fails with \d+)\.$/;
    t.match(database.health(), { healthy: false, message });
    clock.advance(1000);
    await database.read('all', []);
    t.equal(database.health().ready, false, 'a probe that fails is repeated');
    t.equal(logged('Database cannot be read; retrying').length, 1);
    await database.read('refuseReads', [0]);
    await advanceUntil(clock, 1000, () => database.health().ready);
    t.equal(logged('Database can be read again').length, 1);
  });

  t.test(`is ready beside a read that fails with ${name}`, async (t) => {
    const { database } = await open(t);
    for (let i = 0; i < 3; i++) {
      await t.rejects(database.read('failWith', [errcode]), { code: 'storage_failed' });
      await database.read('all', []);
      t.equal(database.health().ready, true);
    }
  });
}

t.test('damage that a repeated read does not find any more was a failing disk', async (t) => {
  const { database, clock, logged, file } = await open(t);
  writeFileSync(`${file}${UNREADABLE}`, '');
  await t.rejects(database.read('readPart', []), { code: 'storage_failed' });
  const damage = { healthy: false, message: /The file is damaged \(malformed\)/ };
  t.match(database.health(), damage);
  clock.advance(60_000);
  await database.search('all', []);
  t.match(database.health(), damage, 'it is still there');
  rmSync(`${file}${UNREADABLE}`);
  await database.read('readPart', []);
  t.match(database.health(), damage, 'nothing has shown that it is the same read');
  await advanceUntil(clock, 60_000, () => database.health().healthy);
  t.match(database.health(), { ready: true, message: /malformed.*can be read again/ });
  t.equal(logged('Database can be read again where it seemed damaged').length, 1);
  writeFileSync(`${file}${UNREADABLE}`, '');
  await t.rejects(database.read('readPart', []), { code: 'storage_failed' });
  t.match(database.health(), damage, 'it is found again');
});

t.test('a database that is closed reads nothing again', async (t) => {
  const { database, clock, file } = await open(t);
  writeFileSync(`${file}${UNREADABLE}`, '');
  await t.rejects(database.read('readPart', []), { code: 'storage_failed' });
  clock.advance(60_000);
  await database.close();
  t.equal(clock.pending(), 0);
});

t.test('damage stays while a thread has the sound page in memory', async (t) => {
  const { database, clock, file } = await open(t);
  await Promise.all(Array.from({ length: 5000 }, (_, i) => database.write('add', [i])));
  await database.truncateLog();
  const found = (await database.search('all', [])).length;
  t.equal(found, 5000);
  const page = 8192;
  const bytes = readFileSync(file);
  writeFileSync(file, bytes.fill(0xff, bytes.length - page));
  await t.rejects(database.read('all', []), { code: 'storage_failed' });
  for (let second = 0; second <= 180; second += 5) {
    t.match(database.health(), { healthy: false, message: /The file is damaged/ });
    clock.advance(5_000);
    t.equal((await database.search('all', [])).length, found, 'from memory');
  }
});

t.test('damage that writes find while all of them fail ends with their failure', async (t) => {
  const { database, clock } = await open(t);
  await t.rejects(database.write('failWith', [CORRUPT]), { code: 'storage_failed' });
  t.match(database.health(), { ready: true, healthy: false }, 'other writes succeed');
  clock.advance(10_000);
  await database.write('refuseWrites', [IOERR_WRITE]);
  await t.rejects(database.write('add', [1]), { code: 'storage_failed' });
  await database.write('refuseWrites', [0]);
  await advanceUntil(clock, 1000, () => database.health().ready);
  t.match(database.health(), { healthy: false, message: /damaged/ }, 'it was there before');
});

/** A file with a table and an index, of which one has a damaged page. */
function damagedFile(t: Test, name: 'keys' | 'keys_by_project'): DatabaseSync {
  const file = join(t.testdir({}), 'keys.db');
  const made = new DatabaseSync(file);
  made.exec(`CREATE TABLE keys (project TEXT, hash BLOB);
    CREATE INDEX keys_by_project ON keys (project);
    INSERT INTO keys VALUES ('a', zeroblob(100))`);
  const { root } = made
    .prepare('SELECT rootpage AS root FROM sqlite_schema WHERE name = ?')
    .get(name) as { root: number };
  const { page_size: size } = made.prepare('PRAGMA page_size').get() as { page_size: number };
  made.close();
  const bytes = readFileSync(file);
  writeFileSync(file, bytes.fill(0xff, (root - 1) * size, root * size));
  const db = new DatabaseSync(file);
  t.teardown(() => db.close());
  return db;
}

t.test('reads the tables that every request needs, and no index beside them', async (t) => {
  readProbeOperation(damagedFile(t, 'keys_by_project'), ['keys'])();
  const damaged = readProbeOperation(damagedFile(t, 'keys'), ['keys']);
  t.throws(damaged, { message: /malformed/ });
});

const isNoError = () => false;
const isOfDisk = (error: Error) => /refused by the disk/.test(error.message);

t.test('is not ready while no connection can read the file', async (t) => {
  const { database, clock, file } = await open(t);
  writeFileSync(`${file}${REFUSED}`, '');
  await t.rejects(database.search('all', []), { message: /refused by the disk/ });
  t.equal(database.health().ready, true, 'another connection reads it');
  const isRefused = () => database.read('all', []).then(isNoError, isOfDisk);
  await until(() => {
    for (let i = 0; i < 2; i++) clock.advance(IDLE_MS);
    return isRefused();
  });
  await advanceUntil(clock, 0, () => !database.health().ready);
  t.match(database.health(), { message: /^The files cannot be read: .*refused by the disk/ });
  rmSync(`${file}${REFUSED}`);
  await advanceUntil(clock, 1000, () => database.health().ready);
  t.same(await database.read('all', []), []);
});
