import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { Test } from 'tap';
import t from 'tap';
import { logDamageIn } from '../../../src/sqlite/log-damage.ts';

const PAGE = 4096;
const FRAME = PAGE + 24;

/** The log of a killed process with a number of commits of one page each, changed by `spoil`. */
function logOf(t: Test, commits: number, spoil: (log: Buffer) => Buffer | undefined): string {
  const directory = t.testdir({});
  const file = join(directory, 'a.db');
  const db = new DatabaseSync(file);
  db.exec(`PRAGMA page_size = ${PAGE}; PRAGMA journal_mode = WAL; CREATE TABLE a (x)`);
  db.exec('PRAGMA wal_checkpoint(TRUNCATE)');
  for (let i = 0; i < commits; i++) db.exec(`INSERT INTO a VALUES (${i})`);
  const copy = join(directory, 'copy-wal');
  copyFileSync(`${file}-wal`, copy);
  db.close();
  const log = readFileSync(copy);
  writeFileSync(copy, spoil(log) ?? log);
  return copy;
}

function flip(log: Buffer, at: number): void {
  log[at] = (log[at] ?? 0) ^ 0xff;
}

/** The position of a byte in the n-th frame, counted from 0. */
function inFrame(n: number, byte: number): number {
  return 32 + n * FRAME + byte;
}

t.test('a sound log has no damage, also across the bound of a read', async (t) => {
  for (const commits of [1, 63, 64, 65, 130]) {
    t.equal(
      logDamageIn(
        logOf(t, commits, () => undefined),
        PAGE,
      ),
      undefined,
      `${commits}`,
    );
  }
});

t.test('counts the commits behind a damaged frame', async (t) => {
  for (const [name, spoil] of Object.entries<(log: Buffer) => void>({
    'a byte of the page': (log) => flip(log, inFrame(3, 24 + 100)),
    'a checksum': (log) => flip(log, inFrame(3, 16)),
    'the size after the commit': (log) => flip(log, inFrame(3, 7)),
  })) {
    t.same(
      logDamageIn(
        logOf(t, 10, (log) => void spoil(log)),
        PAGE,
      ),
      { frames: 7, commits: 7 },
      name,
    );
  }
  const zeroed = logOf(t, 10, (log) => log.fill(0, inFrame(3, 0), inFrame(5, 0)));
  t.same(
    logDamageIn(zeroed, PAGE),
    { frames: 5, commits: 5 },
    'overwritten frames are not counted',
  );
  const late = logOf(t, 130, (log) => void flip(log, inFrame(64, 30)));
  t.same(logDamageIn(late, PAGE), { frames: 66, commits: 66 }, 'behind the bound of a read');
});

t.test('a damaged header makes SQLite ignore every commit', async (t) => {
  for (const at of [0, 11, 17, 25]) {
    const log = logOf(t, 4, (log) => void flip(log, at));
    t.match(logDamageIn(log, PAGE), { frames: 4, commits: 4 }, `byte ${at}`);
  }
});

t.test('what a killed process was writing is no damage', async (t) => {
  const last = logOf(t, 5, (log) => log.subarray(0, inFrame(4, 1000)));
  t.equal(logDamageIn(last, PAGE), undefined, 'a frame that ends early');
  const uncommitted = logOf(t, 5, (log) => {
    for (const n of [3, 4]) {
      flip(log, inFrame(n, 30));
      log.writeUInt32BE(0, inFrame(n, 4));
    }
    return log;
  });
  t.equal(logDamageIn(uncommitted, PAGE), undefined, 'frames without a commit');
  t.equal(logDamageIn(join(t.testdir({}), 'none'), PAGE), undefined, 'no log');
  t.equal(
    logDamageIn(
      logOf(t, 1, () => Buffer.alloc(0)),
      PAGE,
    ),
    undefined,
    'an empty log',
  );
});

t.test('frames of an earlier use of the log are no damage', async (t) => {
  const directory = t.testdir({});
  const file = join(directory, 'a.db');
  const db = new DatabaseSync(file);
  db.exec(`PRAGMA page_size = ${PAGE}; PRAGMA journal_mode = WAL; CREATE TABLE a (x)`);
  for (let i = 0; i < 9; i++) db.exec(`INSERT INTO a VALUES (${i})`);
  db.exec('PRAGMA wal_checkpoint(RESTART); INSERT INTO a VALUES (10)');
  t.ok(readFileSync(`${file}-wal`).length > inFrame(8, 0), 'the former frames are still there');
  t.equal(logDamageIn(`${file}-wal`, PAGE), undefined);
  db.close();
});
