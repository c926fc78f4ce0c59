import type { QueryTerm } from '../../query/query.ts';
import type { GroupField, GroupLook } from '../groups.ts';
import type { Place } from '../rows/place.ts';
import type { Dialect, ListStatement } from './dialect.ts';
import type { Look, StepStatements, TraceScope } from './step.ts';
import { countsOf, stepPlan } from './step.ts';

const COLUMNS: Readonly<Record<GroupField, string>> = {
  session: 't.session_id',
  user: 't.user_id',
};

/** See `traceOf` for `staleBefore`. */
export type GroupStepLook = GroupLook & Pick<Look, 'staleBefore'>;

/** The statements that find the groups of one step. `list` needs the `end` of the step. */
export type GroupPlan = {
  readonly end: ListStatement;
  /** The columns: place of a trace, value of its group, user. */
  list(end: Place | null): ListStatement;
};

export function groupPlan(dialect: Dialect, scope: TraceScope, look: GroupStepLook): GroupPlan {
  const { by } = look;
  const hasValue: QueryTerm = { ...ABOUT, type: 'has', field: by };
  const plan = planWith(dialect, scope, look, hasValue);
  const columns = `t.at_ms, t.at_ns, t.n, ${COLUMNS[by]} AS value, t.user_id`;
  return {
    get end() {
      return plan.end;
    },
    list: (end) => plan.list(columns, end),
  };
}

/** The statements that sum over one step of a group. `list` needs the `end` of the step. */
export function groupSumPlan(
  dialect: Dialect,
  scope: TraceScope,
  value: string,
  look: GroupStepLook,
  sums: string,
): GroupPlan {
  const plan = planWith(dialect, scope, look, groupTerm(look.by, value));
  return {
    get end() {
      return plan.end;
    },
    list(end) {
      const { sql, values } = plan.rows(SUMMED_COLUMNS, end);
      return { sql: `SELECT ${sums} FROM (${sql}) AS x`, values };
    },
  };
}

/** Holds for the traces of a group. */
export function groupTerm(by: GroupField, value: string): QueryTerm {
  return { ...ABOUT, type: 'values', field: by, values: [{ text: value, isPrefix: false }] };
}

const ABOUT = { key: null, negated: false, position: 0 } as const;

/** Columns for the sums. */
const SUMMED_COLUMNS = [
  ...['at_ms', 'at_ns', 'n', 'end_ms', 'end_ns', 'observations', 'errors', 'input_tokens'],
  ...['output_tokens', 'tokens', 'cost', 'session_id', 'user_id'],
]
  .map((column) => `t.${column}`)
  .join(', ');

function planWith(
  dialect: Dialect,
  scope: TraceScope,
  { query, after, size, staleBefore }: GroupStepLook,
  term: QueryTerm,
): StepStatements {
  const look: Look = {
    // In front: of two terms that could lead, the planner takes the first one without a probe.
    query: { terms: [term, ...query.terms] },
    after,
    size,
    limit: size,
    isAscending: false,
    staleBefore,
  };
  return stepPlan(dialect, scope, look).by(countsOf([]));
}
