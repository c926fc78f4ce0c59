import { DatabaseSync } from 'node:sqlite';
import t from 'tap';
import { STORE_MIGRATIONS } from '../../../extensions/sqlite/migrations/index.ts';
import { groupOperations } from '../../../extensions/sqlite/traces/group-operations.ts';
import { traceReadOperations } from '../../../extensions/sqlite/traces/read-operations.ts';
import { migrateFile } from '../../../src/sqlite/migrate.ts';
import { rows } from '../../../src/sqlite/rows.ts';
import { everyGroupLook, everyLook } from '../../contract/plans.ts';

/** A database that records the statements that are prepared. */
class Recording extends DatabaseSync {
  readonly statements = new Set<string>();

  override prepare(sql: string) {
    this.statements.add(sql);
    return super.prepare(sql);
  }
}

t.test('no statement of the reading side scans a table or sorts a list', async (t) => {
  const db = new Recording(':memory:');
  t.teardown(() => db.close());
  migrateFile(db, STORE_MIGRATIONS);
  for (let n = 1; n <= 9; n++) {
    db.exec(
      `INSERT INTO traces (n, project, key, at_ms, at_ns, session_id, user_id, errors, observations, created_at, updated_at)
       VALUES (${n}, 'p', 'k${n}', ${n}, 0, 's', 'u', 1, 1, 0, 0)`,
    );
  }
  db.statements.clear();
  const read = traceReadOperations(db);
  const scope = { project: 'p', since: 0 };
  for (const look of everyLook()) read['traces.list'](scope, look);
  read['observations.root'](scope, 'k1');
  const groups = groupOperations(db);
  for (const look of everyGroupLook()) {
    groups['groups.find'](scope, look);
    groups['groups.sum'](scope, 's', look);
  }
  t.ok(db.statements.size > 50, `${db.statements.size} statements`);
  for (const sql of [...db.statements]) {
    const plan = rows<{ detail: string }>(db, `EXPLAIN QUERY PLAN ${sql}`).all();
    const steps = plan.map(({ detail }) => detail).join('; ');
    t.notMatch(steps, /\bSCAN (?!stale|x\b)\w/, sql);
    // The observations of one trace, the newest observation of an id, and the sessions of one step are sorted.
    if (/FROM traces t INDEXED BY/.test(sql))
      t.notMatch(steps, /TEMP B-TREE (?!FOR json_group_array)/, sql);
  }
});

t.test('one value of a session or a user, and failed traces, have an index', async (t) => {
  const db = new Recording(':memory:');
  t.teardown(() => db.close());
  migrateFile(db, STORE_MIGRATIONS);
  const read = traceReadOperations(db);
  const looks = everyLook();
  const used = (at: number): string => {
    db.statements.clear();
    const look = looks[at * 4];
    if (look === undefined) throw new Error(`there is no query ${at}`);
    read['traces.list']({ project: 'p', since: 0 }, look);
    return [...db.statements].join(' ');
  };
  t.match(used(0), 'traces_by_time');
  t.match(used(4), 'traces_by_session');
  t.match(used(7), 'traces_by_user');
  t.match(used(9), 'failed_traces');
});
