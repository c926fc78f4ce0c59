import { DatabaseSync } from 'node:sqlite';
import t from 'tap';
import { BODY_USE } from '../../../../src/sqlite/queue/entry-operations.ts';
import { queueTables } from '../../../../src/sqlite/queue/migrations/0001-queues.ts';
import { rows, tuples } from '../../../../src/sqlite/rows.ts';

function database({ teardown }: Pick<typeof t, 'teardown'>): DatabaseSync {
  const db = new DatabaseSync(':memory:');
  teardown(() => db.close());
  queueTables.apply(db);
  return db;
}

t.test('finds who needs a body without a scan of the entries that wait', async (t) => {
  const plan = rows<{ detail: string }>(database(t), `EXPLAIN QUERY PLAN ${BODY_USE}`);
  const scans = plan.all(1).filter(({ detail }) => detail.startsWith('SCAN'));
  t.strictSame(
    scans.map(({ detail }) => detail),
    ['SCAN CONSTANT ROW', 'SCAN b'],
    'b has a row for each branch',
  );
});

t.test('a body is needed by each branch and each dead letter', async (t) => {
  const db = database(t);
  db.exec(`
    INSERT INTO queue_branches VALUES (1, 'q', 'a'), (2, 'q', 'b');
    INSERT INTO queue_pending VALUES (2, 10, 1, 1, 0, 0, 0);
    INSERT INTO dead_letters VALUES (1, 1, 11, 1, 1, 'c', 'm', 0);
    INSERT INTO batch_parts VALUES (1, 12)`);
  const use = tuples<[number, number]>(db, BODY_USE);
  t.strictSame(
    [10, 11, 12, 13].map((seq) => use.get(seq)),
    [
      [1, 0],
      [1, 0],
      [0, 1],
      [0, 0],
    ],
  );
});
