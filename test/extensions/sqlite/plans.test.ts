import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import t from 'tap';
import {
  purgeOperations,
  purgeReadOperations,
} from '../../../extensions/sqlite/batches/purge-operations.ts';
import { STORE_MIGRATIONS } from '../../../extensions/sqlite/migrations/index.ts';
import { readOperations } from '../../../extensions/sqlite/operations.ts';
import { textChangeOperations } from '../../../extensions/sqlite/search/change-operations.ts';
import { sqliteTextDialect } from '../../../extensions/sqlite/search/dialect.ts';
import { migrations as INDEX_MIGRATIONS } from '../../../extensions/sqlite/search/index-operations.ts';
import { sqliteDialect, unpostedTraces } from '../../../extensions/sqlite/traces/dialect.ts';
import { exportOperations } from '../../../extensions/sqlite/traces/export-operations.ts';
import { groupOperations } from '../../../extensions/sqlite/traces/group-operations.ts';
import { rankOperations } from '../../../extensions/sqlite/traces/rank-operations.ts';
import { traceReadOperations } from '../../../extensions/sqlite/traces/read-operations.ts';
import { scoreReadOperations } from '../../../extensions/sqlite/traces/score-operations.ts';
import { migrateFile } from '../../../src/sqlite/migrate.ts';
import { rows } from '../../../src/sqlite/rows.ts';
import { groupSumPlan } from '../../../src/store/plan/groups.ts';
import {
  everyGroupLook,
  everyLook,
  everyRankStatement,
  everyStatement,
} from '../../contract/plans.ts';

/** A database that records the statements that are prepared. */
class Recording extends DatabaseSync {
  readonly statements = new Set<string>();

  override prepare(sql: string) {
    this.statements.add(sql);
    return super.prepare(sql);
  }
}

/** The partial indexes of unfinished work, full-text queries, and rows that another statement has found. */
const SCANS_OF_FEW =
  /SCAN (?:stale|\w+(?:\.\w+)? VIRTUAL TABLE INDEX \d+:M\d+|r\b|c\b|json_each VIRTUAL TABLE|\w+ USING (?:COVERING )?INDEX traces_without_terms|found|x\b|p(?![\w ])|CONSTANT ROW)/g;

const SORTS = /TEMP B-TREE (?!FOR json_group_array)/;

t.test('no statement of the reading side scans a table or sorts a list', async (t) => {
  const directory = t.testdir();
  const index = new DatabaseSync(join(directory, 'search.db'));
  migrateFile(index, INDEX_MIGRATIONS);
  index.close();
  const db = new Recording(join(directory, 'store.db'));
  t.teardown(() => db.close());
  migrateFile(db, STORE_MIGRATIONS);
  for (let n = 1; n <= 9; n++) {
    db.exec(
      `INSERT INTO traces (n, project, key, at_ms, at_ns, session_id, user_id, errors, observations, created_at, updated_at)
       VALUES (${n}, 'p', 'k${n}', ${n}, 0, 's', 'u', 1, 1, 0, 0)`,
    );
  }
  db.statements.clear();
  exportOperations(db);
  rankOperations(db);
  const read = traceReadOperations(db);
  const scope = { project: 'p', since: 0 };
  for (const bytes of [0, 4096]) {
    textChangeOperations(db)['texts.configure'](bytes, false);
    for (const look of everyLook()) read['traces.list'](scope, look);
  }
  read['observations.root'](scope, 'k1');
  scoreReadOperations(db)['scores.list'](scope, 'k1');
  const groups = groupOperations(db);
  for (const look of everyGroupLook()) {
    groups['groups.find'](scope, look);
    groups['groups.sum'](scope, 's', look);
  }
  const sums = new Set(
    everyGroupLook()
      .filter(({ query }) => query.terms.length === 0)
      .flatMap((look) =>
        [sqliteDialect, { ...sqliteDialect, unposted: unpostedTraces }].map(
          (dialect) => groupSumPlan(dialect, scope, 's', look, 'count(*)').list(null).sql,
        ),
      ),
  );
  for (const sql of sums) db.statements.add(sql);
  const plain = [sqliteDialect, sqliteTextDialect];
  const dialects = [...plain, ...plain.map((one) => ({ ...one, unposted: unpostedTraces }))];
  const statements = dialects.flatMap((dialect) => everyStatement(dialect, 't.name, t.at_ms'));
  for (const { sql } of statements) db.statements.add(sql);
  const ranked = new Set(dialects.flatMap(everyRankStatement).map(({ sql }) => sql));
  for (const sql of ranked) db.statements.add(sql);
  t.ok(db.statements.size > 200, `${db.statements.size} statements`);
  const plans = [...db.statements].map((sql) => {
    const plan = rows<{ detail: string }>(db, `EXPLAIN QUERY PLAN ${sql}`).all();
    return { sql, steps: plan.map(({ detail }) => detail).join('; ') };
  });
  // One assertion a rule: a name with the SQL of each statement is megabytes of output.
  t.same(
    plans.filter(({ steps }) => /\bSCAN/.test(steps.replaceAll(SCANS_OF_FEW, ''))),
    [],
    'no statement scans a table',
  );
  t.ok(sums.size > 0);
  t.same(
    plans.filter(({ sql, steps }) => sums.has(sql) && !steps.includes('COVERING INDEX traces_by_')),
    [],
    'sums of sessions and users read no rows of grouped traces',
  );
  // Sorted are the observations of one trace, the newest observation of an id, the traces of one step, and those that wait to be posted.
  const isInOrder = ({ sql }: { sql: string }): boolean =>
    /FROM (?:traces t INDEXED BY|trace_terms p)/.test(sql) &&
    !ranked.has(sql) &&
    !sql.includes(unpostedTraces.traces) &&
    !/\bUNION\b(?! ALL)/.test(sql);
  t.ok(plans.filter(isInOrder).length > 50);
  t.same(
    plans.filter((plan) => isInOrder(plan) && SORTS.test(plan.steps)),
    [],
    'no listing sorts its rows',
  );
});

t.test('no statement reads all traces of a project', async (t) => {
  const db = new Recording(join(t.testdir(), 'store.db'));
  t.teardown(() => db.close());
  migrateFile(db, STORE_MIGRATIONS);
  db.statements.clear();
  readOperations(db);
  const plans = [...db.statements].map((sql) => ({
    sql,
    steps: rows<{ detail: string }>(db, `EXPLAIN QUERY PLAN ${sql}`)
      .all()
      .map(({ detail }) => detail),
  }));
  // One request counts them.
  const isExpected = (sql: string): boolean => sql.startsWith('SELECT count(*) FROM traces');
  const ofProject = /^SEARCH (?:t|traces) USING .*\(project=\?(?: AND updated_at>\?)?\)$/;
  t.same(
    plans.filter(
      ({ sql, steps }) => steps.some((step) => ofProject.test(step)) && !isExpected(sql),
    ),
    [],
  );
});

t.test('the projects with old data are found without a scan of their rows', async (t) => {
  const db = new Recording(join(t.testdir(), 'store.db'));
  t.teardown(() => db.close());
  migrateFile(db, STORE_MIGRATIONS);
  db.statements.clear();
  const read = purgeReadOperations(db);
  const steps = [...db.statements].flatMap((sql) =>
    rows<{ detail: string }>(db, `EXPLAIN QUERY PLAN ${sql}`)
      .all()
      .map(({ detail }) => detail),
  );
  t.ok(steps.length > 10);
  t.same(
    steps.filter((step) => /\bSCAN (?!found|CONSTANT ROW)/.test(step)),
    [],
  );
  db.exec(`
    INSERT INTO pending_updates VALUES ('b', 'k', 1, 0, '{}', 0), ('b', 'l', 1, 0, '{}', 0),
      ('a', 'k', 1, 0, '{}', 0);
    INSERT INTO waiting_children VALUES ('c', 'k', 'l', 0), ('a', 'k', 'l', 0);
    INSERT INTO rejections VALUES ('d', 1, 0, 'k', '', 'c', 'r', NULL, 1, NULL),
      ('d', 2, 0, 'k', '', 'c', 'r', NULL, 1, NULL);`);
  const { updates, rejections } = read['purge.others']();
  t.same([updates.sort(), rejections], [['a', 'b', 'c'], ['d']]);
});

t.test(
  'the update that holds a batch is found without the other ones of its project',
  async (t) => {
    const db = new Recording(join(t.testdir(), 'store.db'));
    t.teardown(() => db.close());
    migrateFile(db, STORE_MIGRATIONS);
    db.statements.clear();
    purgeOperations(db);
    purgeReadOperations(db);
    const ofBatch = [...db.statements].filter((sql) => /\bu\.batch = /.test(sql));
    t.equal(ofBatch.length, 2);
    for (const sql of ofBatch) {
      const plan = rows<{ detail: string }>(db, `EXPLAIN QUERY PLAN ${sql}`).all();
      const steps = plan.map(({ detail }) => detail).filter((detail) => /\bu\b/.test(detail));
      t.match(steps, [
        /^SEARCH u USING COVERING INDEX pending_updates_by_batch \(batch=\? AND project=\?/,
      ]);
    }
  },
);
