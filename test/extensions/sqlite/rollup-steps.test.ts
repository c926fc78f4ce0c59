import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { Test } from 'tap';
import t from 'tap';
import { STORE_MIGRATIONS } from '../../../extensions/sqlite/migrations/index.ts';
import type { FoldStep } from '../../../extensions/sqlite/traces/rollup-operations.ts';
import {
  DeltaLog,
  foldReadOperations,
  rollupOperations,
  STEP_CHANGES,
  STEP_CHARACTERS,
} from '../../../extensions/sqlite/traces/rollup-operations.ts';
import { migrateFile } from '../../../src/sqlite/migrate.ts';
import type { RollupChange } from '../../../src/store/rollups/contribution.ts';
import { DELTA_KINDS } from '../../../src/store/rollups/delta.ts';
import { ROLLUP_FIELDS } from '../../../src/store/rollups/fields.ts';

const P = 'proj_steps';

function opened(t: Test) {
  const db = new DatabaseSync(join(t.testdir({}), 'store.db'));
  t.teardown(() => db.close());
  migrateFile(db, STORE_MIGRATIONS);
  const log = new DeltaLog(db);
  const { 'rollups.fold': fold } = rollupOperations(db);
  const { 'rollups.toFold': toFold } = foldReadOperations(db);
  const count = (sql: string) => Number(Object.values(db.prepare(sql).get() ?? {})[0]);
  return {
    fold,
    next: (): FoldStep => {
      const step = toFold('');
      if (step === null) throw new Error('nothing to fold');
      return step;
    },
    add: (changes: readonly RollupChange[]) =>
      log.addStored(P, { kind: DELTA_KINDS.CHANGES, text: JSON.stringify(changes) }),
    waiting: () => count('SELECT count(*) FROM rollup_deltas'),
    /** The traces of the values, in the rows of hours. */
    traces: () => count('SELECT coalesce(sum(traces), 0) FROM rollups WHERE step = 1'),
  };
}

/** Each hour has fewer values than rows of a field. */
const HOURS = 10;

function changeOf(i: number, value = `u${i}`, traces = 1): RollupChange {
  return [i % HOURS, ROLLUP_FIELDS.user, value, [traces, traces, 0, 0, 0, 0, 0], []];
}

function changesOf(values: number): RollupChange[] {
  return Array.from({ length: values }, (_, i) => changeOf(i));
}

t.test('a step that was read twice is added once, whatever came after it', async (t) => {
  const { fold, next, add, waiting, traces } = opened(t);
  add(changesOf(1));
  const [first, second] = [next(), next()];
  add(changesOf(1));
  const both = next();
  fold(first);
  t.equal(traces(), 1);
  fold(both);
  fold(second);
  t.equal(traces(), 1, 'the second delta waits');
  t.equal(waiting(), 1);
  fold(next());
  t.equal(waiting(), 0);
  add(changesOf(1));
  fold(second);
  t.equal(traces(), 2, 'a new delta has no number of an old one');
  fold(next());
  t.equal(traces(), 3);
});

t.test('a step has so many changes, and the rest waits as a delta', async (t) => {
  for (const [changes, rest] of [
    [STEP_CHANGES, 0],
    [STEP_CHANGES + 1, 1],
  ] as const) {
    const { fold, next, add, waiting, traces } = opened(t);
    add(changesOf(changes));
    const step = next();
    fold(step);
    t.equal(traces(), STEP_CHANGES);
    t.equal(waiting(), rest);
    fold(step);
    t.equal(traces(), STEP_CHANGES, 'its rest is not taken for it');
    if (rest > 0) fold(next());
    t.equal(traces(), changes);
  }
});

t.test('the rest of a step is added before the deltas behind it', async (t) => {
  const { fold, next, add, waiting, traces } = opened(t);
  add(changesOf(STEP_CHANGES + 1));
  const last = STEP_CHANGES;
  add([changeOf(last, `u${last}`, -1), changeOf(last, 'v'.repeat(STEP_CHARACTERS))]);
  while (waiting() > 0) fold(next());
  t.equal(traces(), STEP_CHANGES + 1, 'the last value of the first delta is gone');
});

t.test('a step that begins with a rest is recognized as well', async (t) => {
  const { fold, next, add, waiting, traces } = opened(t);
  add(changesOf(2 * STEP_CHANGES + 1));
  fold(next());
  const [first, second] = [next(), next()];
  fold(first);
  fold(second);
  t.equal(traces(), 2 * STEP_CHANGES);
  t.equal(waiting(), 1);
  fold(next());
  t.equal(traces(), 2 * STEP_CHANGES + 1);
});
