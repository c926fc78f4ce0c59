import type { DatabaseSync } from 'node:sqlite';
import type { FileMigration } from '../../../src/sqlite/migrate.ts';

/**
 * The indexes of the traces of a session and of a user have the columns that their sums need: a list then reads no rows, which lie
 * far apart and have more than a kilobyte each. 50 users with 200 traces each cost 17 instead of 43 ms of CPU, and a trace
 * 80 bytes.
 */
export const groupSums: FileMigration = {
  name: '0019-group-sums',
  apply: (db) => buildGroupIndexes(db),
};

/** Builds the indexes again. `more` is a further condition of their rows, with `AND` in front. */
export function buildGroupIndexes(db: DatabaseSync, more = ''): void {
  for (const [group, other] of [
    ['session', 'user'],
    ['user', 'session'],
  ]) {
    db.exec(`
      DROP INDEX traces_by_${group};
      CREATE INDEX traces_by_${group} ON traces (project, ${group}_id, at_ms, at_ns, n, ${other}_id, ${SUMMED})
        WHERE ${group}_id IS NOT NULL ${more};
    `);
  }
}

const SUMMED =
  'updated_at, end_ms, end_ns, observations, errors, input_tokens, output_tokens, tokens, cost';
