import { statSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import * as storeOperations from '../../../extensions/sqlite/operations.ts';
import { openConnection } from '../../../src/sqlite/opening.ts';
import type { OperationModule } from '../../../src/sqlite/operation.ts';
import * as queueOperations from '../../../src/sqlite/queue/directory-operations.ts';

t.test('a connection keeps as many pages as its operations say, 16 MiB by default', async (t) => {
  const directory = t.testdir();
  const cacheOf = (name: string, operations: OperationModule): unknown => {
    const file = join(directory, name);
    const { db } = openConnection(operations, {
      ...{ file, access: 'write', filled: `${file}.filled`, reserveBytes: 0, maxPages: undefined },
    }).connection;
    t.teardown(() => db.close());
    return db.prepare('PRAGMA cache_size').get()?.['cache_size'];
  };
  t.equal(cacheOf('queue.db', queueOperations), -4096);
  t.equal(cacheOf('store.db', storeOperations), -16_384);
});

t.test('opening a file of the newest version writes nothing', (t) => {
  const file = join(t.testdir(), 'queue.db');
  const reopen = () =>
    openConnection(queueOperations, {
      ...{ file, access: 'write', filled: `${file}.filled`, reserveBytes: 0, maxPages: undefined },
    }).connection.db;
  reopen().close();
  const db = reopen();
  t.equal(statSync(`${file}-wal`).size, 0);
  t.same(db.prepare('PRAGMA auto_vacuum').get(), { auto_vacuum: 2 });
  db.close();
  t.end();
});
