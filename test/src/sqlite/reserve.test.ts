import { existsSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { constants } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { Test } from 'tap';
import t from 'tap';
import { isDiskFull } from '../../../src/model/errors.ts';
import { openDatabase } from '../../../src/sqlite/database.ts';
import { isOutOfRoom, reserveFilling } from '../../../src/sqlite/reserve.ts';
import { fakeClock } from '../../helper/clock.ts';
import { recordingLogger } from '../../helper/settings.ts';
import { fill, smallDisk } from '../../helper/small-disk.ts';
import { until } from '../../helper/until.ts';

const RESERVE_BYTES = 1 << 20;
/** SQLite's extended result code of a write that the quota refuses. */
const IOERR_WRITE = 778;
const FULL = 13;

function diskOf(t: Test): string | undefined {
  const disk = smallDisk(t, '8m');
  if (disk === undefined) t.comment('no file system of a fixed size can be mounted here');
  return disk;
}

/** A database with its reserve, on a small disk of its own. */
async function onSmallDisk(t: Test) {
  const disk = diskOf(t);
  if (disk === undefined) return undefined;
  const directory = join(disk, 'data');
  const reserve = join(directory, 'test.reserve');
  const database = await open(t, directory);
  await until(() => existsSync(reserve));
  return { database, directory, reserve, ballast: join(disk, 'ballast') };
}

async function open(t: Test, directory: string, minFreeBytes = 0, clock = fakeClock()) {
  const database = await openDatabase<typeof import('./statements.ts')>({
    ...{ directory, name: 'test', createDirectory: true, minFreeBytes },
    reserveBytes: RESERVE_BYTES,
    operations: new URL('./statements.ts', import.meta.url),
    ...{ clock, logger: recordingLogger() },
  });
  t.teardown(() => database.close());
  return database;
}

t.test('a reached quota is a full disk, although Node has no name for it', (t) => {
  const error = (more: object) => Object.assign(new Error('write'), more);
  t.equal(isDiskFull(error({ code: 'ENOSPC', errno: -constants.errno.ENOSPC })), true);
  t.equal(isDiskFull(error({ code: 'UNKNOWN', errno: -constants.errno.EDQUOT })), true);
  t.equal(isDiskFull(error({ code: 'EIO', errno: -constants.errno.EIO })), false);
  t.equal(isDiskFull(error({})), false);
  t.end();
});

t.test('a write that the quota refuses releases the reserve, as a full disk does', async (t) => {
  const opened = await onSmallDisk(t);
  if (opened === undefined) return;
  const { database, reserve, ballast } = opened;
  await t.rejects(database.write('failWith', [IOERR_WRITE]), { code: 'storage_failed' });
  t.ok(existsSync(reserve), 'the disk has room');
  fill(ballast);
  const again = 'repeated in the room of the reserve';
  t.equal(await database.write('failOnce', [IOERR_WRITE]), true, again);
  t.notOk(existsSync(reserve));
  t.match(database.shortage(), { code: 'disk_full' });
  t.equal(await database.write('add', [1]), 2);
});

t.test('the log of a full disk keeps its room until the disk has room again', async (t) => {
  const opened = await onSmallDisk(t);
  if (opened === undefined) return;
  const { database, directory, ballast } = opened;
  const logBytes = (): number => statSync(join(directory, 'test.db-wal')).size;
  const some = Array.from({ length: 50 }, (_, i) => i);
  await Promise.all(some.map((value) => database.write('add', [value])));
  const before = logBytes();
  t.ok(before > 0);
  fill(ballast);
  t.equal(await database.write('failOnce', [FULL]), true);
  fill(ballast);
  await t.rejects(database.truncateLog(), { code: 'disk_full' });
  t.equal(logBytes(), before);
  t.equal(await database.write('add', [100]), 200, 'another program has the room of the reserve');
  rmSync(ballast);
  t.equal(await database.truncateLog(), true, 'the room of the reserve is free');
  t.equal(logBytes(), 0);
});

t.test(
  'a close leaves a reserve for the next start on a full disk, and a crash none',
  async (t) => {
    for (const end of ['crash', 'close'] as const) {
      const opened = await onSmallDisk(t);
      if (opened === undefined) return;
      const { database, reserve, ballast } = opened;
      fill(ballast);
      t.equal(await database.write('failOnce', [FULL]), true);
      t.notOk(existsSync(reserve));
      await database[end]();
      t.equal(existsSync(reserve), end === 'close');
    }
  },
);

t.test('begins the log of a killed process again on a disk without a free byte', async (t) => {
  const disk = diskOf(t);
  if (disk === undefined) return;
  const directory = join(disk, 'data');
  const [file, reserve] = [join(directory, 'test.db'), join(directory, 'test.reserve')];
  const killed = await open(t, directory);
  await until(() => existsSync(reserve));
  await killed.write('add', [0]);
  // With another connection the log outlives the thread.
  const other = new DatabaseSync(file);
  t.teardown(() => other.close());
  other.exec('PRAGMA wal_checkpoint(TRUNCATE)');
  for (let value = 1; value < 10; value++) await killed.write('add', [value]);
  await killed.crash();
  t.ok(statSync(`${file}-wal`).size > 0);
  rmSync(reserve);
  fill(join(disk, 'ballast'));
  const database = await open(t, directory);
  t.equal(await database.write('add', [100]), 200);
});

t.test('a reserve that is gone without a report is made again', async (t) => {
  const directory = t.testdir({});
  const reserve = join(directory, 'test.reserve');
  const clock = fakeClock();
  const database = await open(t, directory, 0, clock);
  await until(() => existsSync(reserve));
  await database.write('add', [1]);
  rmSync(reserve);
  await until(() => {
    clock.advance(1000);
    database.shortage();
    return existsSync(reserve);
  });
  t.equal(database.shortage(), undefined);
});

t.test('a trial write finds a full disk, and leaves no file', async (t) => {
  const disk = diskOf(t);
  if (disk === undefined) return;
  const file = join(disk, 'test.reserve');
  t.equal(isOutOfRoom(file), false);
  t.equal(isOutOfRoom(join(disk, 'missing', 'test.reserve')), false);
  fill(join(disk, 'ballast'));
  t.equal(isOutOfRoom(file), true);
  t.same(readdirSync(disk), ['ballast']);
});

t.test('makes no reserve that leaves no room beside it, and tries again later', async (t) => {
  const disk = diskOf(t);
  if (disk === undefined) return;
  const file = join(disk, 'test.reserve');
  const [clock, logger] = [fakeClock(), recordingLogger()];
  let filled = 0;
  const reserve = reserveFilling(file, 5 << 20, { clock, logger }, () => filled++);
  const attempt = async (): Promise<number> => {
    reserve.fill(4 << 20);
    await reserve.settled();
    return filled;
  };
  t.equal(await attempt(), 0);
  t.same(readdirSync(disk), []);
  t.match(logger.lines, [{ level: 'warn', message: 'Reserve could not be created' }]);
  clock.advance(9_999);
  t.equal(await attempt(), 0);
  t.equal(logger.lines.length, 1, 'one attempt in ten seconds');
  clock.advance(1);
  reserve.fill(1 << 20);
  await reserve.settled();
  t.equal(filled, 1);
  t.same(readdirSync(disk), ['test.reserve']);
});

t.test('a start removes an unfinished reserve', async (t) => {
  const directory = t.testdir({});
  const first = await open(t, directory);
  await first.close();
  const reserve = join(directory, 'test.reserve');
  rmSync(reserve, { force: true });
  for (const ending of ['.new', '.trial']) writeFileSync(reserve + ending, 'x');
  await open(t, directory, Number.MAX_SAFE_INTEGER);
  t.same(
    readdirSync(directory).filter((name) => name.includes('reserve')),
    [],
  );
});
