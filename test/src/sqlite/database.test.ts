import type { Test } from 'tap';
import t from 'tap';
import type { Database } from '../../../src/sqlite/database.ts';
import { openDatabase } from '../../../src/sqlite/database.ts';
import { fakeClock } from '../../helper/clock.ts';
import { recordingLogger } from '../../helper/settings.ts';

async function open(t: Test, module = './statements.ts', directory = t.testdir({})) {
  const database: Database = await openDatabase({
    directory,
    name: 'test',
    createDirectory: true,
    minFreeBytes: 0,
    reserveBytes: 0,
    modules: [{ url: new URL(module, import.meta.url).href, options: {} }],
    clock: fakeClock(),
    logger: recordingLogger(),
  });
  t.teardown(() => database.close());
  return database;
}

t.test('a commit is synced to disk', async (t) => {
  const database = await open(t);
  t.equal(await database.write('sync', []), 2, 'synchronous = FULL');
  t.same(await database.write('pages', []), [8192, 'wal', 1000]);
});

t.test('every call gets its own answer, and the next reading sees it', async (t) => {
  const database = await open(t);
  const answers = await Promise.all([3, 1, 2].map((value) => database.write('add', [value])));
  t.same(answers, [6, 2, 4]);
  t.same(await database.read('all', []), [1, 2, 3]);
  t.same(await database.search('all', []), [1, 2, 3]);
});

t.test('of a group only what is bad fails, and leaves nothing behind', async (t) => {
  const database = await open(t);
  await database.write('add', [1]);
  const results = await Promise.allSettled([
    database.write('add', [2]),
    database.write('add', [1]),
    database.write('fail', []),
    database.write('addAndFail', [3]),
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

t.test('what nobody waits for is written all the same, at the latest when it closes', async (t) => {
  const directory = t.testdir({});
  const database = await open(t, './statements.ts', directory);
  t.equal(await database.write('add', [1], { lazy: true }), 2);
  const last = database.write('add', [2], { lazy: true });
  await database.close();
  t.equal(await last, 4);
  await t.rejects(database.write('add', [3]), { name: 'RetryableError', code: 'storage_failed' });
  t.same(await (await open(t, './statements.ts', directory)).read('all', []), [1, 2]);
});

t.test('readers cannot write, and hand over bytes', async (t) => {
  const database = await open(t);
  await t.rejects(database.read('write', []), { code: 'storage_failed', message: /readonly/ });
  t.same(await database.read('blob', [3]), new Uint8Array([7, 7, 7]));
});

t.test('everything that waits is told when the thread ends', async (t) => {
  const database = await open(t);
  const waiting = [database.write('add', [1]), database.read('all', [])];
  const told = Promise.allSettled(waiting);
  await database.crash();
  for (const result of await told) {
    if (result.status === 'rejected') t.match(result.reason, { code: 'storage_failed' });
  }
  await t.rejects(database.write('add', [2]), { name: 'RetryableError' });
});

t.test('a module that cannot be loaded fails the opening and keeps no lock', async (t) => {
  const directory = t.testdir({});
  await t.rejects(open(t, './no-such-module.ts', directory));
  const database = await open(t, './statements.ts', directory);
  t.same(await database.read('all', []), []);
});
