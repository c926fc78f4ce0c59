import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import t from 'tap';
import { STORE_MIGRATIONS } from '../../../extensions/sqlite/migrations/index.ts';
import { readOperations, writeOperations } from '../../../extensions/sqlite/operations.ts';
import { recordOf } from '../../../src/queue/record.ts';
import { migrateFile } from '../../../src/sqlite/migrate.ts';
import { positionsOf, rowsOf } from '../../../src/store/rows/batch-rows.ts';
import { MAX_SUMMARIZED } from '../../../src/store/rows/written-trace.ts';
import { anObservation, aTenant, nativeBatch } from '../../helper/batches.ts';

t.test('a summary is not saved into another trace that got the number of its own', async (t) => {
  const db = new DatabaseSync(join(t.testdir({}), 'store.db'));
  t.teardown(() => db.close());
  migrateFile(db, STORE_MIGRATIONS);
  const write = writeOperations(db);
  const read = readOperations(db);
  /** Writes a trace whose summary the background makes. */
  const store = (projectId: string, traceId: string, userId: string, receivedAt: number): void => {
    const list = Array.from({ length: MAX_SUMMARIZED + 1 }, (_, index) =>
      anObservation({ id: `${traceId}-${index}`, index, traceId, userId }),
    );
    const source = nativeBatch(list.length, { tenant: aTenant({ projectId }), receivedAt });
    const rows = rowsOf(source, list, positionsOf(source));
    const about = { project: projectId, keyId: 'key', batchId: source.id, receivedAt };
    const more = { usageAt: receivedAt, parts: null, namesTraces: false };
    write['traces.write']({ ...rows, ...about, ...more }, recordOf(source));
  };
  const removeAll = (projectId: string): void => {
    // Hidden first, then removed.
    for (const project of [projectId, '']) {
      while (write['purge.traces'](project, Number.MAX_SAFE_INTEGER).hasMore);
    }
  };
  const summaryOfNewest = () => {
    const made = read['traces.summarize'](read['traces.nextStale'](0) ?? 0);
    if (made === null) throw new Error('no trace waits for its summary');
    return made;
  };
  const traces = () => db.prepare('SELECT n, user_id, name, stale_changes FROM traces').all();

  const others = [
    ['another project', 'proj_b', 'trace-a', 1000],
    ['another id', 'proj_a', 'trace-b', 1000],
    ['a later trace with its id', 'proj_a', 'trace-a', 2000],
  ] as const;
  for (const [what, project, trace, at] of others) {
    store('proj_a', 'trace-a', 'alice', 1000);
    const made = summaryOfNewest();
    removeAll('proj_a');
    store(project, trace, 'bob', at);
    write['traces.saveSummary'](made);
    t.match(traces(), [{ n: 1, user_id: null, name: null }], what);
    write['traces.saveSummary'](summaryOfNewest());
    t.match(traces(), [{ n: 1, user_id: 'bob', stale_changes: 0 }], what);
    removeAll(project);
  }
});
