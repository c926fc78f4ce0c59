import { DatabaseSync } from 'node:sqlite';
import t from 'tap';
import { STORE_MIGRATIONS } from '../../../extensions/sqlite/migrations/index.ts';
import { readOperations, writeOperations } from '../../../extensions/sqlite/operations.ts';
import { migrateFile } from '../../../src/sqlite/migrate.ts';
import { rows } from '../../../src/sqlite/rows.ts';

/** Rows that another statement has found, and values of the statement. */
const NO_TABLES = /SCAN (?:CONSTANT ROW|json_each|\(subquery-\d+\)|found|\w+ VIRTUAL TABLE)/g;
/** Tables of which all rows are wanted, or that have a row for each thing that people make, and the open hour of the ledger. */
const SMALL = new Set([
  ...['b', 'queue_branches', 'organizations', 'projects', 'deleted_projects', 'k', 'api_keys'],
  ...['ui_codes', 'ui_sessions', 'erasures', 'erasure_blocks', 'dead_letters', 'usage_ledger'],
]);

/** Every statement of a store, and the steps of its plan. */
function plansOf(db: DatabaseSync): Map<string, readonly string[]> {
  const statements = new Set<string>();
  const prepare = db.prepare.bind(db);
  db.prepare = (sql: string) => {
    statements.add(sql);
    return prepare(sql);
  };
  writeOperations(db);
  readOperations(db);
  return new Map(
    [...statements].map((sql) => {
      const plan = rows<{ detail: string }>(db, `EXPLAIN QUERY PLAN ${sql}`).all();
      return [sql, plan.map(({ detail }) => detail.replaceAll(NO_TABLES, ''))];
    }),
  );
}

t.test('no statement of a store scans a table that grows, except for its first rows', async (t) => {
  const db = new DatabaseSync(':memory:');
  t.teardown(() => db.close());
  migrateFile(db, STORE_MIGRATIONS);
  const plans = plansOf(db);
  t.ok(plans.size > 300, `${plans.size} statements`);
  for (const [sql, steps] of plans) {
    const scanned = steps.flatMap((step) => /^SCAN (\w+)/.exec(step)?.[1] ?? []);
    const large = scanned.filter((table) => !SMALL.has(table));
    if (large.length > 0 && !/\bLIMIT\b|traces_without_terms/.test(sql)) t.fail(sql, { steps });
  }
  for (const table of ['pending_updates', 'waiting_children']) {
    const removal = [...plans].find(
      ([sql]) => sql.includes(`DELETE FROM ${table}`) && sql.includes('received_at <'),
    );
    t.match(removal?.[1].join('; '), `INDEX ${table}_by_age (project=? AND received_at<?)`);
  }
});
