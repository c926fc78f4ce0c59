/** Finds sessions and users and sums over their traces, in a reading thread. */
import type { DatabaseSync } from 'node:sqlite';
import type { Instant } from '../../../src/model/observation.ts';
import type { GroupStep, GroupSumStep } from '../../../src/store/groups.ts';
import type { GroupStepLook } from '../../../src/store/plan/groups.ts';
import { groupPlan, groupSumPlan } from '../../../src/store/plan/groups.ts';
import type { TraceScope } from '../../../src/store/plan/step.ts';
import type { GroupRow, GroupSumCells } from '../../../src/store/rows/group-rows.ts';
import { extremeOf, groupSumsOf, groupsOfRows } from '../../../src/store/rows/group-rows.ts';
import { workClock } from '../../../src/thread/work-clock.ts';
import { queryRunner } from '../search/dialect.ts';
import { endFinding, keptStatements } from './step-reading.ts';

type TimeColumns = readonly [ms: string, ns: string];

const START: TimeColumns = ['x.at_ms', 'x.at_ns'];
const END: TimeColumns = [
  'coalesce(x.end_ms, x.at_ms)',
  'iif(x.end_ms IS NULL, x.at_ns, coalesce(x.end_ns, 0))',
];
/** Whether nanoseconds since the epoch are an integer of 64 bits, as they are from 1678 to 2261. */
const isNear = ([ms]: TimeColumns): string => `${ms} BETWEEN -9214560000000 AND 9214646399999`;
/** Nanoseconds since the epoch; null for a time that is not near. */
const near = (time: TimeColumns): string =>
  `iif(${isNear(time)}, ${time[0]} * 1000000 + ${time[1]}, NULL)`;
/** The milliseconds of the first time of all, of which a text of digits has no sign. */
const YEAR_0000_MS = -62_167_219_200_000;
const MS_DIGITS = 15;
/** A text in the order of time; null for a time that is near. */
const far = (time: TimeColumns): string =>
  `iif(${isNear(time)}, NULL, printf('%0${MS_DIGITS}d%06d', ${time[0]} - (${YEAR_0000_MS}), ${time[1]}))`;
const FIRST = `min(${near(START)})`;
const LAST = `max(${near(END)})`;
const parts = (nanoseconds: string): string => `${nanoseconds} / 1000000, ${nanoseconds} % 1000000`;
/** As a real number: JavaScript cannot read every integer of 64 bits, and a sum of integers may overflow. */
const sumOf = (column: string): string => `sum(CAST(x.${column} AS REAL))`;
const SUMS = `count(*), sum(x.observations), sum(x.errors), ${sumOf('input_tokens')},
  ${sumOf('output_tokens')}, ${sumOf('tokens')}, ${sumOf('cost')}, ${parts(FIRST)}, ${parts(LAST)},
  max(x.user_id)`;
const FAR_TIMES = `min(${far(START)}), max(${far(END)})`;
const SESSIONS = 'json_group_array(DISTINCT x.session_id) FILTER (WHERE x.session_id IS NOT NULL)';

/** The sessions of a user as a JSON array, the first and the last time that is not near, and the sums. */
type SumRow = readonly [
  sessions: string | null,
  farFirst: string | null,
  farLast: string | null,
  ...cells: GroupSumCells,
];

function farInstant(text: string | null): Instant | null {
  if (text === null) return null;
  const ms = Number(text.slice(0, MS_DIGITS)) + YEAR_0000_MS;
  return { ms, ns: Number(text.slice(MS_DIGITS)) };
}

export function groupOperations(db: DatabaseSync) {
  const runQuery = queryRunner(db);
  const endOfStep = endFinding(db);
  const walk = keptStatements<GroupRow>(db);
  const sum = keptStatements<SumRow>(db);
  return {
    'groups.find': (scope: TraceScope, look: GroupStepLook): GroupStep =>
      runQuery(look.query, (dialect) => {
        const spent = workClock();
        const plan = groupPlan(dialect, scope, look);
        const end = endOfStep(plan.end);
        const { sql, values } = plan.list(end);
        const groups = groupsOfRows(walk(sql).iterate(...values));
        return { groups, next: end, spentMs: spent() };
      }),
    'groups.sum': (scope: TraceScope, value: string, look: GroupStepLook): GroupSumStep =>
      runQuery(look.query, (dialect) => {
        const spent = workClock();
        const sessions = look.by === 'user' ? SESSIONS : 'NULL';
        const columns = `${sessions}, ${FAR_TIMES}, ${SUMS}`;
        const plan = groupSumPlan(dialect, scope, value, look, columns);
        const end = endOfStep(plan.end);
        const { sql, values } = plan.list(end);
        const found = sum(sql).get(...values);
        if (found === undefined) throw new Error('sums have no row');
        const [ids, farFirst, farLast, ...cells] = found;
        const sumsOfStep = groupSumsOf(cells, ids === null ? [] : (JSON.parse(ids) as string[]));
        const firstTime = extremeOf(sumsOfStep.firstTime, farInstant(farFirst), -1);
        const lastTime = extremeOf(sumsOfStep.lastTime, farInstant(farLast), 1);
        return { sums: { ...sumsOfStep, firstTime, lastTime }, next: end, spentMs: spent() };
      }),
  };
}
