import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { Test } from 'tap';
import t from 'tap';
import { STORE_MIGRATIONS } from '../../../extensions/sqlite/migrations/index.ts';
import { readOperations, writeOperations } from '../../../extensions/sqlite/operations.ts';
import { recordOf } from '../../../src/queue/record.ts';
import { migrateFile } from '../../../src/sqlite/migrate.ts';
import { positionsOf, rowsOf } from '../../../src/store/rows/batch-rows.ts';
import { MAX_SUMMARIZED } from '../../../src/store/rows/written-trace.ts';
import { anObservation, aTenant, nativeBatch } from '../../helper/batches.ts';

function rig(t: Test) {
  const db = new DatabaseSync(join(t.testdir({}), 'store.db'));
  t.teardown(() => db.close());
  migrateFile(db, STORE_MIGRATIONS);
  const write = writeOperations(db);
  const read = readOperations(db);
  /** Writes a trace, whose summary the background makes if it has too many observations. */
  const store = (
    { projectId = 'proj_a', traceId = 'trace-a', userId = 'alice', receivedAt = 1000 },
    numbers: readonly number[] = Array.from({ length: MAX_SUMMARIZED + 1 }, (_, i) => i),
  ): void => {
    const list = numbers.map((number, index) =>
      anObservation({ id: `${traceId}-${number}`, index, traceId, userId }),
    );
    const source = nativeBatch(list.length, { tenant: aTenant({ projectId }), receivedAt });
    const rows = rowsOf(source, list, positionsOf(source));
    const about = { project: projectId, keyId: 'key', batchId: source.id, receivedAt };
    const more = { usageAt: receivedAt, parts: null, namesTraces: false, since: 0, gaps: [] };
    write['traces.write']({ ...rows, ...about, ...more }, recordOf(source));
  };
  const summaryOfNewest = () => {
    const made = read['traces.summarize'](read['traces.nextStale'](0) ?? 0);
    if (made === null) throw new Error('no trace waits for its summary');
    return made;
  };
  return { db, write, store, summaryOfNewest };
}

t.test('a summary is not saved into another trace that got the number of its own', async (t) => {
  const { db, write, store, summaryOfNewest } = rig(t);
  const removeAll = (projectId: string): void => {
    // Hidden first, then removed.
    for (const project of [projectId, '']) {
      while (write['purge.traces'](project, Number.MAX_SAFE_INTEGER).hasMore);
    }
  };
  const traces = () => db.prepare('SELECT n, user_id, name, stale_changes FROM traces').all();

  const others = [
    ['another project', 'proj_b', 'trace-a', 1000],
    ['another id', 'proj_a', 'trace-b', 1000],
    ['a later trace with its id', 'proj_a', 'trace-a', 2000],
  ] as const;
  for (const [what, project, trace, at] of others) {
    store({});
    const made = summaryOfNewest();
    removeAll('proj_a');
    store({ projectId: project, traceId: trace, userId: 'bob', receivedAt: at });
    write['traces.saveSummary'](made);
    t.match(traces(), [{ n: 1, user_id: null, name: null }], what);
    write['traces.saveSummary'](summaryOfNewest());
    t.match(traces(), [{ n: 1, user_id: 'bob', stale_changes: -2 }], what);
    removeAll(project);
  }
});

t.test('a summary is not saved after writes that made another one in between', async (t) => {
  const { db, write, store, summaryOfNewest } = rig(t);
  const upTo = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => from + i);
  store({}, upTo(0, 400));
  // As a migration leaves it that needs new summaries.
  db.exec('UPDATE traces SET stale_changes = 1');
  const made = summaryOfNewest();
  store({}, upTo(400, 410));
  store({ userId: 'bob' }, upTo(410, 600));
  write['traces.saveSummary'](made);
  const { trace } = summaryOfNewest();
  t.equal(trace.summary.count, 600, 'the trace still waits for its summary');
});
