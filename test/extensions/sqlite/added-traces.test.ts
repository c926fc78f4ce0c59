import { DatabaseSync } from 'node:sqlite';
import t from 'tap';
import { STORE_MIGRATIONS } from '../../../extensions/sqlite/migrations/index.ts';
import { AddedTraces } from '../../../extensions/sqlite/traces/added-traces.ts';
import { traceOperations } from '../../../extensions/sqlite/traces/write-operations.ts';
import { recordOf } from '../../../src/queue/record.ts';
import { migrateFile } from '../../../src/sqlite/migrate.ts';
import { rowsOf } from '../../../src/store/rows/batch-rows.ts';
import { ROW, type RowCell } from '../../../src/store/rows/observation-row.ts';
import { anObservation, nativeBatch } from '../../helper/batches.ts';

t.test('a trace that is added has the next number, and is found by its key', async (t) => {
  const added = new AddedTraces();
  const one = { project: 'p', key: 'a', longId: null, at: 1 };
  t.equal(added.add(one, 7), 8);
  t.equal(added.add({ ...one, key: Buffer.from('b') }, 7), 9);
  t.same([added.numberOf('p', 'a'), added.numberOf('p', Buffer.from('b'))], [8, 9]);
  t.same([added.numberOf('other', 'a'), added.numberOf('p', 'b')], [undefined, undefined]);
  t.match(added.take(8), { n: 8, key: 'a' });
  t.same(
    [added.take(8), added.get(8), added.numberOf('p', 'a')],
    [undefined, undefined, undefined],
  );
  t.equal(added.add(one, 7), 10, 'a number is not used twice');
  t.same(
    added.takeAll().map(({ n }) => n),
    [9, 10],
  );
  t.same(added.takeAll(), []);
  t.equal(added.add(one, 20), 21);
  added.clear();
  t.equal(added.get(21), undefined);
});

t.test('a write behind one that failed begins without its traces', async (t) => {
  const db = new DatabaseSync(':memory:');
  t.teardown(() => db.close());
  migrateFile(db, STORE_MIGRATIONS);
  const { 'traces.write': write } = traceOperations(db, { pricing: undefined });
  const call = (traceIds: readonly string[], name: RowCell) => {
    const source = nativeBatch(traceIds.length);
    const observations = traceIds.map((traceId, index) => anObservation({ traceId, index }));
    const rows = rowsOf(source, observations, undefined);
    const traces = rows.traces.map((trace, i) => {
      const cells = [...trace.rows];
      if (i === traceIds.length - 1) cells[ROW.NAME] = name;
      return { ...trace, rows: cells };
    });
    const { id: batchId, receivedAt, tenant } = source;
    const about = { project: tenant.projectId, keyId: tenant.keyId, batchId, receivedAt };
    const more = { usageAt: receivedAt, parts: null, namesTraces: true, since: 0, gaps: [] };
    db.exec('BEGIN');
    try {
      const written = write({ ...rows, ...about, ...more, traces }, recordOf(source));
      db.exec('COMMIT');
      return written;
    } catch (error) {
      db.exec('ROLLBACK');
      throw error;
    }
  };
  const noText: RowCell[] = [];
  t.throws(() => call(['a', 'b'], noText as unknown as RowCell));
  t.same(db.prepare('SELECT count(*) AS n FROM traces').get()?.n, 0);
  t.match(call(['b', 'a'], 'name'), { state: 'written', traceIds: ['b', 'a'] });
  t.match(call(['a'], 'again'), { state: 'written', traceIds: ['a'] });
  t.same(
    db
      .prepare('SELECT n, key, observations FROM traces ORDER BY n')
      .all()
      .map(({ n, key, observations }) => [n, key, observations]),
    [
      [1, 'b', 1],
      [2, 'a', 1],
    ],
  );
});
