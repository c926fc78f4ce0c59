import { DatabaseSync } from 'node:sqlite';
import t from 'tap';
import { STORE_MIGRATIONS } from '../../../extensions/sqlite/migrations/index.ts';
import {
  foldReadOperations,
  rollupOperations,
} from '../../../extensions/sqlite/traces/rollup-operations.ts';
import { rollupReadOperations } from '../../../extensions/sqlite/traces/rollup-reading.ts';
import { migrateFile } from '../../../src/sqlite/migrate.ts';
import { rows } from '../../../src/sqlite/rows.ts';

/** Rows that another statement has found, and values of the statement. */
const NO_TABLES = /SCAN (?:CONSTANT ROW|json_each|\(subquery-1\))/g;

t.test('no statement of rollups scans a table', async (t) => {
  const db = new DatabaseSync(':memory:');
  t.teardown(() => db.close());
  migrateFile(db, STORE_MIGRATIONS);
  const statements: string[] = [];
  const prepare = db.prepare.bind(db);
  db.prepare = (sql: string) => {
    statements.push(sql);
    return prepare(sql);
  };
  rollupReadOperations(db);
  foldReadOperations(db);
  rollupOperations(db);
  t.ok(statements.length >= 12, `${statements.length} statements`);
  for (const sql of [...statements]) {
    const plan = rows<{ detail: string }>(db, `EXPLAIN QUERY PLAN ${sql}`).all();
    const steps = plan.map(({ detail }) => detail).join('; ');
    t.notMatch(steps.replaceAll(NO_TABLES, ''), /\bSCAN/, sql);
  }
});
