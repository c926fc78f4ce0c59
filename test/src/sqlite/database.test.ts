import type { Test } from 'tap';
import t from 'tap';
import { openDatabase } from '../../../src/sqlite/database.ts';
import { fakeClock } from '../../helper/clock.ts';
import { recordingLogger } from '../../helper/settings.ts';

async function open(
  t: Test,
  { file = './statements.ts', directory = t.testdir({}), reserveBytes = 0 } = {},
) {
  const database = await openDatabase<typeof import('./statements.ts')>({
    directory,
    name: 'test',
    createDirectory: true,
    minFreeBytes: 0,
    reserveBytes,
    operations: new URL(file, import.meta.url),
    clock: fakeClock(),
    logger: recordingLogger(),
  });
  t.teardown(() => database.close());
  return database;
}

t.test('syncs every commit to disk', async (t) => {
  const database = await open(t);
  t.equal(await database.write('pragma', ['synchronous']), 2, 'FULL');
  t.equal(await database.write('pragma', ['page_size']), 8192);
  t.equal(await database.write('pragma', ['journal_mode']), 'wal');
  t.equal(await database.write('pragma', ['wal_autocheckpoint']), 1000);
});

t.test('the reserve bounds the log that starts a checkpoint', async (t) => {
  const page = 8192;
  const least = 1000;
  const most = 4000;
  for (const [pages, checkpoint] of [
    [least, least],
    [least + 1, least + 1],
    [most, most],
    [most + 1, most],
  ] as const) {
    const database = await open(t, { reserveBytes: pages * page });
    t.equal(await database.write('pragma', ['wal_autocheckpoint']), checkpoint, `${pages} pages`);
  }
});

t.test('answers every call on its own, and shows its effect to the next read', async (t) => {
  const database = await open(t);
  const answers = await Promise.all([3, 1, 2].map((value) => database.write('add', [value])));
  t.same(answers, [6, 2, 4]);
  t.same(await database.read('all', []), [1, 2, 3]);
  t.same(await database.search('all', []), [1, 2, 3]);
});

t.test('rejects only the failing calls of a group, and rolls them back', async (t) => {
  const database = await open(t);
  await database.write('add', [1]);
  const results = await Promise.allSettled([
    database.write('add', [2]),
    database.write('add', [1]),
    database.write('fail', []),
    database.write('addAndFail', [3]),
    // @ts-expect-error: the file of operations has no such name
    database.write('unknown', []),
    database.write('add', [4]),
  ]);
  t.same(
    results.map(({ status }) => status === 'fulfilled'),
    [true, false, false, false, false, true],
  );
  const reasons = results.map((result) =>
    result.status === 'rejected' ? result.reason : undefined,
  );
  t.match(reasons[1], { name: 'PermanentError', code: 'storage_refused', message: /UNIQUE/ });
  t.match(reasons[2], { name: 'Error', message: 'it fails' });
  t.match(reasons[4], { name: 'Error', message: 'unknown operation unknown' });
  t.same(await database.read('all', []), [1, 2, 4]);
});

t.test('the types refuse arguments of another operation', async (t) => {
  const database = await open(t);
  // @ts-expect-error: `add` takes a number
  await t.rejects(database.write('add', ['one']), { message: 'datatype mismatch' });
  // @ts-expect-error: the reading threads have no `add`
  await t.rejects(database.read('add', [1]), { message: 'unknown operation add' });
  const doubled: number = await database.write('add', [21]);
  t.equal(doubled, 42);
});

t.test('writes lazy calls too, at the latest when it closes', async (t) => {
  const directory = t.testdir({});
  const database = await open(t, { directory });
  t.equal(await database.write('add', [1], { lazy: true }), 2);
  const last = database.write('add', [2], { lazy: true });
  await database.close();
  t.equal(await last, 4);
  await t.rejects(database.write('add', [3]), { name: 'RetryableError', code: 'storage_failed' });
  t.same(await (await open(t, { directory })).read('all', []), [1, 2]);
});

t.test(
  'a lazy call is written with the next call, and in the time of the most hurried one',
  async (t) => {
    const database = await open(t);
    const hour = 3_600_000;
    const order: string[] = [];
    const lazy = (n: number, ms: number) =>
      database.write('add', [n], { lazy: ms }).then(() => order.push(`lazy ${n}`));
    const patient = lazy(1, hour);
    await Promise.all([patient, database.write('add', [2]).then(() => order.push('next'))]);
    t.same(order, ['lazy 1', 'next'], 'one group');
    await Promise.all([lazy(3, hour), lazy(4, 1)]);
    t.same(order.slice(2), ['lazy 3', 'lazy 4']);
  },
);

t.test('reading threads cannot write, and their bytes move to the caller', async (t) => {
  const database = await open(t);
  await t.rejects(database.read('insert', []), { code: 'storage_failed', message: /readonly/ });
  t.same(await database.read('blob', [3]), { bytes: new Uint8Array([7, 7, 7]) });
});

t.test('rejects every waiting call when the thread ends', async (t) => {
  const database = await open(t);
  const settled = Promise.allSettled([database.write('add', [1]), database.read('all', [])]);
  await database.crash();
  for (const result of await settled) {
    if (result.status === 'rejected') t.match(result.reason, { code: 'storage_failed' });
  }
  await t.rejects(database.write('add', [2]), { name: 'RetryableError' });
});

t.test('starts no thread of reads behind a close or a crash', async (t) => {
  for (const end of ['close', 'crash'] as const) {
    const directory = t.testdir({});
    const database = await open(t, { directory });
    await database.write('add', [1]);
    const last = database.search('all', []);
    const ended = database[end]();
    const refused = { name: 'RetryableError', code: 'storage_failed' };
    if (end === 'close') t.same(await last, [1], 'a call before the close is answered');
    else await last.catch(() => undefined);
    await ended;
    await t.rejects(database.read('all', []), refused);
    await t.rejects(database.search('all', []), refused);
  }
});

t.test('starts another thread of reads if one has ended', async (t) => {
  const database = await open(t);
  await t.rejects(database.read('end', []), { code: 'storage_failed' });
  await t.rejects(database.search('end', []), { code: 'storage_failed' });
  t.same(await database.read('all', []), []);
  t.same(await database.search('all', []), []);
  t.equal(database.shortage(), undefined);
  t.match(database.health(), { ready: true, healthy: true });
});

t.test('reports that the thread of writes has ended', async (t) => {
  const database = await open(t);
  await t.rejects(database.write('end', []), { code: 'storage_failed' });
  t.match(database.shortage(), { code: 'storage_failed', message: 'the database thread ended' });
  t.match(database.health(), { ready: false, healthy: false, message: /thread ended/ });
  t.same(await database.read('all', []), []);
});

t.test('releases the lock if a file of operations cannot be loaded', async (t) => {
  const directory = t.testdir({});
  await t.rejects(open(t, { file: './no-such-file.ts', directory }), /no-such-file/);
  const database = await open(t, { directory });
  t.same(await database.read('all', []), []);
});
