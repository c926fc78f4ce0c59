/** Finds sessions and users and sums over their traces, in a reading thread. */
import type { DatabaseSync } from 'node:sqlite';
import { LruCache } from '../../../src/component/lru.ts';
import type { RowQuery } from '../../../src/sqlite/rows.ts';
import { workClock } from '../../../src/sqlite/work-clock.ts';
import type { GroupStep, GroupSumStep } from '../../../src/store/groups.ts';
import type { GroupStepLook } from '../../../src/store/plan/groups.ts';
import { groupPlan, groupSumPlan } from '../../../src/store/plan/groups.ts';
import type { TraceScope } from '../../../src/store/plan/step.ts';
import type { GroupRow, GroupSumCells } from '../../../src/store/rows/group-rows.ts';
import { groupSumsOf, groupsOfRows } from '../../../src/store/rows/group-rows.ts';
import { dialectIn } from '../search/dialect.ts';
import type { PlaceCells } from './read-operations.ts';
import { endOfStep, keptTuples } from './read-operations.ts';

const FIRST = 'min(x.at_ms * 1000000 + x.at_ns)';
const LAST =
  'max(coalesce(x.end_ms * 1000000 + coalesce(x.end_ns, 0), x.at_ms * 1000000 + x.at_ns))';
/** A time far outside of all years is a real number. */
const parts = (nanoseconds: string): string =>
  `CAST(${nanoseconds} / 1000000 AS INTEGER), CAST(${nanoseconds} % 1000000 AS INTEGER)`;
/** As a real number: JavaScript cannot read every integer of 64 bits, and a sum of integers may overflow. */
const sumOf = (column: string): string => `sum(CAST(x.${column} AS REAL))`;
const SUMS = `count(*), sum(x.observations), sum(x.errors), ${sumOf('input_tokens')},
  ${sumOf('output_tokens')}, ${sumOf('tokens')}, ${sumOf('cost')}, ${parts(FIRST)}, ${parts(LAST)},
  max(x.user_id)`;
const SESSIONS = 'json_group_array(DISTINCT x.session_id) FILTER (WHERE x.session_id IS NOT NULL)';

/** The sessions of a user as a JSON array, and the sums. */
type SumRow = readonly [sessions: string | null, ...cells: GroupSumCells];

/** The statements that a thread keeps; each set of conditions is one. */
const MAX_KEPT = 64;

export function groupOperations(db: DatabaseSync) {
  const dialect = dialectIn(db);
  const ends = new LruCache<string, RowQuery<PlaceCells>>({ maxEntries: MAX_KEPT });
  const walks = new LruCache<string, RowQuery<GroupRow>>({ maxEntries: MAX_KEPT });
  const sums = new LruCache<string, RowQuery<SumRow>>({ maxEntries: MAX_KEPT });
  return {
    'groups.find': (scope: TraceScope, look: GroupStepLook): GroupStep => {
      const spent = workClock();
      const plan = groupPlan(dialect(), scope, look);
      const end = endOfStep(db, ends, plan.end);
      const { sql, values } = plan.list(end);
      const groups = groupsOfRows(keptTuples(db, walks, sql).iterate(...values));
      return { groups, next: end, spentMs: spent() };
    },
    'groups.sum': (scope: TraceScope, value: string, look: GroupStepLook): GroupSumStep => {
      const spent = workClock();
      const sessions = look.by === 'user' ? SESSIONS : 'NULL';
      const plan = groupSumPlan(dialect(), scope, value, look, `${sessions}, ${SUMS}`);
      const end = endOfStep(db, ends, plan.end);
      const { sql, values } = plan.list(end);
      const found = keptTuples(db, sums, sql).get(...values);
      if (found === undefined) throw new Error('sums have no row');
      const [ids, ...cells] = found;
      const sumsOfStep = groupSumsOf(cells, ids === null ? [] : (JSON.parse(ids) as string[]));
      return { sums: sumsOfStep, next: end, spentMs: spent() };
    },
  };
}
