import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Test } from 'tap';
import t from 'tap';
import { systemClock } from '../../../../src/component/clock.ts';
import type { SealedBatch } from '../../../../src/model/batch.ts';
import type { DirectoryStorage } from '../../../../src/sqlite/queue/directory-storage.ts';
import { openDirectoryStorage } from '../../../../src/sqlite/queue/directory-storage.ts';
import { PART_BYTES, WHOLE_BYTES } from '../../../../src/sqlite/queue/large-bodies.ts';
import { leaseAll } from '../../../contract/queue.ts';
import { nativeBatch } from '../../../helper/batches.ts';
import { recordingLogger } from '../../../helper/settings.ts';

const OPTIONS = { name: 'queue', branches: ['a'], maxBytes: 1e9 };

function opener(
  t: Test,
  directory: string,
  more: { maxPages?: number; reserveBytes?: number } = {},
) {
  const logger = recordingLogger();
  const open = async (): Promise<DirectoryStorage> => {
    const storage = await openDirectoryStorage({
      directory,
      createDirectory: true,
      minFreeBytes: 0,
      reserveBytes: 0,
      clock: systemClock,
      logger,
      ...more,
    });
    t.teardown(() => storage.close());
    return storage;
  };
  return { open, logger };
}

/** Random bytes, so that each body can be found in a file. */
function bigBatch(bytes: number): SealedBatch {
  return nativeBatch(1, { body: randomBytes(bytes) });
}

t.test('only the owner can read the directory and its files', async (t) => {
  const directory = join(t.testdir({}), 'deep', 'data');
  const { open } = opener(t, directory, { reserveBytes: 1 << 20 });
  const storage = await open();
  await (await storage.openQueue(OPTIONS)).append(nativeBatch(1));
  t.equal(statSync(directory).mode & 0o777, 0o700);
  const files = readdirSync(directory).filter((file) => !file.endsWith('.new'));
  t.ok(files.includes('queue.db-wal'), 'also the log');
  for (const file of files) t.equal(statSync(join(directory, file)).mode & 0o077, 0, file);
});

t.test('refuses a second owner with the pid of the first, until that ends', async (t) => {
  const { open } = opener(t, t.testdir({}));
  const first = await open();
  const queue = await first.openQueue(OPTIONS);
  await t.rejects(open(), {
    message: new RegExp(
      `^data directory .* is in use by another tracectl \\(pid ${process.pid}\\)$`,
    ),
  });
  await queue.append(nativeBatch(1));
  await first.crash();
  const second = await open();
  t.equal((await leaseAll(await second.openQueue(OPTIONS), 'a')).length, 1);
});

t.test('names a directory that cannot be used', async (t) => {
  const directory = t.testdir({ file: 'text' });
  await t.rejects(opener(t, join(directory, 'file')).open(), {
    message: /^data directory .*file cannot be used/,
  });
});

t.test('a full file refuses appends, can be emptied, and accepts again', async (t) => {
  const { open } = opener(t, t.testdir({}), { maxPages: 150 });
  const queue = await (await open()).openQueue(OPTIONS);
  const kept: string[] = [];
  const refused: unknown[] = [];
  for (let i = 0; i < 40; i++) {
    const batch = bigBatch(40_000);
    await queue.append(batch).then(
      () => kept.push(batch.id),
      (error: unknown) => refused.push(error),
    );
  }
  t.ok(kept.length > 5 && refused.length > 5, `${kept.length} kept, ${refused.length} refused`);
  for (const error of refused) t.match(error, { name: 'RetryableError', code: 'disk_full' });
  const size = queue.stats().bytes;
  t.equal(size, kept.length * 40_000, 'refused bodies are not counted');
  const entries = await leaseAll(queue, 'a');
  t.same(
    entries.map(({ batch }) => batch.id),
    kept,
  );
  await queue.ack('a', entries);
  for (let i = 0; i < kept.length; i++) await queue.append(bigBatch(40_000));
});

t.test('rejects only the calls of a group that need room on a full disk', async (t) => {
  const { open } = opener(t, t.testdir({}), { maxPages: 60 });
  const queue = await (await open()).openQueue(OPTIONS);
  await queue.append(bigBatch(1000));
  const entries = await leaseAll(queue, 'a');
  const results = await Promise.allSettled([
    queue.append(bigBatch(2_000_000)),
    queue.ack('a', entries),
  ]);
  t.same(
    results.map(({ status }) => status),
    ['rejected', 'fulfilled'],
  );
  t.same(queue.stats().branches[0]?.entries, 0);
});

/** With the smallest log, and with the largest one, which has as many bytes as the reserve. */
for (const reserveMiB of [8, 32]) {
  t.test(`a queue on a full disk is drained, and accepts again: ${reserveMiB} MiB`, (t) =>
    fillsAndDrains(t, reserveMiB),
  );
}

async function fillsAndDrains(t: Test, reserveMiB: number): Promise<void> {
  const diskMiB = 3 * reserveMiB;
  const reserveBytes = reserveMiB << 20;
  const directory = mkdtempSync(join(tmpdir(), 'tracectl-full-'));
  t.teardown(() => rmSync(directory, { recursive: true, force: true }));
  try {
    const options = `size=${diskMiB}m,mode=0700`;
    execFileSync('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', directory], { stdio: 'pipe' });
  } catch {
    t.comment('the test may not mount a file system of a fixed size');
    return;
  }
  t.teardown(() => execFileSync('umount', ['-l', directory]));
  const { open } = opener(t, directory, { reserveBytes });
  const storage = await open();
  const queue = await storage.openQueue(OPTIONS);
  const reserve = join(directory, 'queue.reserve');
  const isReserved = () => statSync(reserve, { throwIfNoEntry: false })?.size === reserveBytes;
  while (!isReserved()) await sleep(10);
  const kept: string[] = [];
  const tries = 3 * diskMiB;
  for (let i = 0; i < tries; i++) {
    const batch = bigBatch(500_000);
    await queue.append(batch).then(
      () => kept.push(batch.id),
      (error: unknown) => t.match(error, { code: 'disk_full' }),
    );
  }
  t.ok(kept.length > 5 && kept.length < tries, `${kept.length} were accepted`);
  // Another program takes all remaining bytes.
  const filler = join(directory, 'filler');
  t.throws(() => writeFileSync(filler, Buffer.alloc(diskMiB << 20)), { code: 'ENOSPC' });
  const seen: string[] = [];
  for (;;) {
    const entries = await queue.lease('a', 3, 1e9);
    if (entries.length === 0) break;
    seen.push(...entries.map(({ batch }) => batch.id));
    await queue.ack('a', entries);
  }
  t.same(seen, kept, 'every accepted batch is delivered');
  t.equal(queue.stats().bytes, 0);
  rmSync(filler);
  const isAccepted = (): Promise<boolean> =>
    queue.append(bigBatch(500_000)).then(
      () => true,
      (error: unknown) => {
        t.match(error, { message: /too little free space/ }, 'refused before it is tried');
        return false;
      },
    );
  while (!(await isAccepted())) await sleep(50);
  t.ok(isReserved(), 'the reserve is restored');
  await storage.close();
  const check = new DatabaseSync(join(directory, 'queue.db'));
  t.same(check.prepare('PRAGMA integrity_check').get(), { integrity_check: 'ok' });
  check.close();
}

t.test('refuses appends below the minimum of free space', async (t) => {
  const logger = recordingLogger();
  const storage = await openDirectoryStorage({
    directory: t.testdir({}),
    createDirectory: true,
    minFreeBytes: Number.MAX_SAFE_INTEGER,
    reserveBytes: 0,
    clock: systemClock,
    logger,
  });
  t.teardown(() => storage.close());
  const queue = await storage.openQueue(OPTIONS);
  await t.rejects(queue.append(nativeBatch(1)), { name: 'RetryableError', code: 'disk_full' });
  t.match(logger.lines, [{ level: 'warn', message: /^Disk space below/ }]);
});

/** Overwrites bytes of a body in the file, as a bad disk does. */
function damage(file: string, body: Buffer): void {
  const content = readFileSync(file);
  // A page that SQLite split keeps a stale copy behind its cells.
  const part = body.subarray(100, 200);
  let at = content.indexOf(part);
  if (at === -1) throw new Error('the body is not in the file');
  for (; at !== -1; at = content.indexOf(part, at)) content.fill(0xff, at, at + 50);
  writeFileSync(file, content);
}

t.test('quarantines and counts a damaged entry without stopping the others', async (t) => {
  const directory = t.testdir({});
  const { open, logger } = opener(t, directory);
  const first = await open();
  const batches = [1, 2, 3].map(() => bigBatch(3000));
  const before = await first.openQueue(OPTIONS);
  for (const batch of batches) await before.append(batch);
  await first.close();
  damage(join(directory, 'queue.db'), batches[1]?.body ?? Buffer.alloc(0));

  const second = await open();
  const queue = await second.openQueue(OPTIONS);
  const entries = await leaseAll(queue, 'a');
  t.same(
    entries.map(({ batch }) => batch.id),
    [batches[0]?.id, batches[2]?.id],
  );
  t.match(queue.stats(), { quarantined: 1, bytes: 6000, branches: [{ entries: 2 }] });
  t.match(
    logger.lines.filter(({ level }) => level === 'error'),
    [{ fields: { reason: /checksum/ } }],
  );
  await second.crash();
  const third = await (await open()).openQueue(OPTIONS);
  t.match(third.stats(), { quarantined: 1, branches: [{ entries: 2 }] }, 'also after a restart');
});

t.test('verify quarantines a damaged entry before a lease meets it', async (t) => {
  const directory = t.testdir({});
  const { open } = opener(t, directory);
  const first = await open();
  const batches = [1, 2, 3].map(() => bigBatch(3000));
  const before = await first.openQueue(OPTIONS);
  for (const batch of batches) await before.append(batch);
  await first.close();
  damage(join(directory, 'queue.db'), batches[0]?.body ?? Buffer.alloc(0));
  const queue = await (await open()).openQueue(OPTIONS);
  t.same(await queue.verify(), { entries: 3, quarantined: 1 });
  t.same(await queue.verify(), { entries: 2, quarantined: 0 });
  t.equal((await leaseAll(queue, 'a')).length, 2);
});

/** The number of rows of a table. */
function rowsOf(directory: string, table: string): number {
  const database = new DatabaseSync(join(directory, 'queue.db'), { readOnly: true });
  const count = Number(database.prepare(`SELECT count(*) AS count FROM ${table}`).get()?.count);
  database.close();
  return count;
}

t.test(
  'reads a body in parts back unchanged, and deletes its parts after the last acknowledgement',
  async (t) => {
    const directory = t.testdir({});
    const { open } = opener(t, directory);
    const sizes = [WHOLE_BYTES, WHOLE_BYTES + 1, 3 * PART_BYTES, 3 * PART_BYTES + 1];
    const first = await open();
    const before = await first.openQueue(OPTIONS);
    const batches = sizes.map(bigBatch);
    const small = Array.from({ length: 10 }, () => bigBatch(100));
    await Promise.all([...batches, ...small].map((batch) => before.append(batch)));
    const bytes = [...batches, ...small].reduce((sum, { body }) => sum + body.length, 0);
    t.match(before.stats(), { bytes, branches: [{ entries: 14 }] });
    const again = batches[1] as SealedBatch;
    await before.append(again);
    t.match(before.stats(), { bytes }, 'a repeated append is not stored again');
    await first.tidy();
    t.equal(rowsOf(directory, 'body_parts'), 3 + 3 + 4, 'neither are its parts');
    await first.crash();

    const second = await open();
    const queue = await second.openQueue(OPTIONS);
    t.match(queue.stats(), { bytes, branches: [{ entries: 14 }] });
    t.same(await queue.verify(), { entries: 14, quarantined: 0 });
    const entries = await leaseAll(queue, 'a');
    for (const { id, body } of batches) {
      const entry = entries.find(({ batch }) => batch.id === id);
      t.ok(entry?.batch.body.equals(body), `${body.length} bytes`);
    }
    await queue.ack('a', entries);
    t.match(queue.stats(), { bytes: 0 });
    await second.tidy();
    t.equal(rowsOf(directory, 'body_parts'), 0);
    t.equal(rowsOf(directory, 'batch_parts'), 0);
  },
);

t.test('two queues of a file accept the same body in one group', async (t) => {
  const { open } = opener(t, t.testdir({}));
  const storage = await open();
  const first = await storage.openQueue(OPTIONS);
  const second = await storage.openQueue({ ...OPTIONS, name: 'second' });
  const batch = bigBatch(100);
  await Promise.all([first.append(batch), second.append(batch)]);
  const large = Array.from({ length: 8 }, () => bigBatch(WHOLE_BYTES + 1));
  await Promise.all(large.map((each) => first.append(each)));
  t.match(first.stats(), { branches: [{ entries: 9 }] });
  t.equal((await leaseAll(first, 'a')).length, 9);
  t.equal((await leaseAll(second, 'a')).length, 1);
});

t.test('deletes the parts of a large body that does not fit', async (t) => {
  const directory = t.testdir({});
  const { open } = opener(t, directory, { maxPages: 500 });
  const storage = await open();
  const queue = await storage.openQueue(OPTIONS);
  await t.rejects(queue.append(bigBatch(5 * PART_BYTES)), { code: 'disk_full' });
  await storage.tidy();
  t.equal(rowsOf(directory, 'body_parts'), 0);
  t.match(queue.stats(), { bytes: 0, branches: [{ entries: 0 }] });
  await queue.append(bigBatch(WHOLE_BYTES + 1));
  t.equal((await leaseAll(queue, 'a')).length, 1);
});

t.test('quarantines a batch with a missing part', async (t) => {
  const directory = t.testdir({});
  const { open } = opener(t, directory);
  const first = await open();
  await (await first.openQueue(OPTIONS)).append(bigBatch(WHOLE_BYTES + 1));
  await first.close();
  const database = new DatabaseSync(join(directory, 'queue.db'));
  database.exec('DELETE FROM body_parts WHERE n = 2');
  database.close();
  const queue = await (await open()).openQueue(OPTIONS);
  t.same(await queue.verify(), { entries: 1, quarantined: 1 });
});

t.test('starts with a damaged file, and keeps its readable entries', async (t) => {
  for (const [damaged, spoil] of Object.entries<(content: Buffer) => Buffer>({
    'an overwritten header': (content) => content.fill(0xaa, 0, 100),
    'an empty page in the middle': (content) => content.fill(0, 8192 * 30, 8192 * 32),
    'a file that ends early': (content) => content.subarray(0, 8192 * 40 + 77),
    'an overwritten schema': (content) => content.fill(0xaa, 100, 8192),
  })) {
    const directory = t.testdir({});
    const { open, logger } = opener(t, directory);
    const first = await open();
    const before = await first.openQueue(OPTIONS);
    for (let i = 0; i < 30; i++) await before.append(bigBatch(9000));
    await first.close();
    const file = join(directory, 'queue.db');
    writeFileSync(file, spoil(readFileSync(file)));

    const storage = await open();
    const queue = await storage.openQueue(OPTIONS);
    const entries = await leaseAll(queue, 'a');
    await queue.ack('a', entries);
    await queue.append(nativeBatch(1));
    t.equal(
      (await leaseAll(queue, 'a')).length,
      1,
      `${damaged}: it works, with ${entries.length} entries`,
    );
    const moved = readdirSync(directory).some((name) => name.startsWith('queue.db.corrupt-'));
    const isLogged = logger.lines.some(({ level }) => level === 'error');
    t.ok(
      moved ? isLogged : entries.length > 0,
      `${damaged}: ${moved ? 'set aside' : 'used unchanged'}`,
    );
    await storage.close();
  }
});

t.test('reports each entry of a long backlog whose batch a salvage lost', async (t) => {
  const directory = t.testdir({});
  const { open } = opener(t, directory);
  const first = await open();
  const before = await first.openQueue(OPTIONS);
  const all = 1500;
  await Promise.all(Array.from({ length: all }, () => before.append(nativeBatch(1))));
  await first.close();
  const db = new DatabaseSync(join(directory, 'queue.db'));
  db.exec('DELETE FROM raw_batches WHERE seq > 10');
  db.close();
  const queue = await (await open()).openQueue(OPTIONS);
  let delivered = 0;
  for (let entries = await leaseAll(queue, 'a'); entries.length > 0; ) {
    delivered += entries.length;
    await queue.ack('a', entries);
    entries = await leaseAll(queue, 'a');
  }
  t.equal(delivered, 10);
  t.match(queue.stats(), { quarantined: all - 10, branches: [{ branch: 'a', entries: 0 }] });
});

t.test('a lease goes on behind damaged entries', async (t) => {
  const directory = t.testdir({});
  const { open } = opener(t, directory);
  const first = await open();
  const before = await first.openQueue(OPTIONS);
  for (let i = 0; i < 30; i++) await before.append(nativeBatch(1));
  await first.close();
  const db = new DatabaseSync(join(directory, 'queue.db'));
  db.exec('UPDATE raw_batches SET crc = crc + 1 WHERE seq <= 25');
  db.close();
  const queue = await (await open()).openQueue(OPTIONS);
  const entries = await queue.lease('a', 5, 1e9);
  t.same(
    entries.map(({ seq }) => seq),
    [26, 27, 28, 29, 30],
  );
  t.match(queue.stats(), { quarantined: 25, branches: [{ branch: 'a', entries: 5 }] });
});
