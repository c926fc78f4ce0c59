import type { Query } from '../../query/query.ts';
import type { Place } from '../rows/place.ts';
import { conditionOf, FAILED, timeCondition } from './conditions.ts';
import type { Dialect, Lead, ListStatement } from './dialect.ts';
import { Parameters } from './dialect.ts';
import type { Plan } from './plan.ts';
import { planOf } from './plan.ts';

/** One step of a listing. */
export type Look = {
  readonly query: Query;
  /** The most rows. */
  readonly limit: number;
  /** The step begins behind it. */
  readonly after: Place | null;
  readonly isAscending: boolean;
  /** Traces that a search looks at. */
  readonly size: number;
  /** See `traceOf`. */
  readonly staleBefore: number;
};

/** The traces that a read sees: of one project, with an event since a time in milliseconds since the epoch. */
export type TraceScope = { readonly project: string; readonly since: number };

/** The statements of one step of a listing. */
export type StepPlan = {
  /**
   * Whether the index finds traces that do not match: the step then looks at `size` of them, and `end` finds the place of the last one.
   */
  readonly isSearch: boolean;
  readonly end: ListStatement;
  /** `end`: the place up to which the step looks, inclusive; null without a bound. */
  list(columns: string, end: Place | null): ListStatement;
};

export function stepPlan(dialect: Dialect, scope: TraceScope, look: Look): StepPlan {
  const plan = planOf(look.query);
  const order = orderOf(look);
  return {
    isSearch: plan.rest.length > 0,
    get end() {
      const parameters = new Parameters(dialect);
      const where = rangeOf(parameters, scope, look, plan);
      return {
        sql: `SELECT t.at_ms, t.at_ns, t.n FROM ${dialect.traces(plan.lead)}
          WHERE ${where.join(' AND ')} ${order} LIMIT 1 OFFSET ${parameters.integer(look.size - 1)}`,
        values: parameters.values,
      };
    },
    list(columns, end) {
      const parameters = new Parameters(dialect);
      const where = matching(parameters, scope, look, plan, end);
      return {
        sql: `SELECT ${columns} FROM ${dialect.traces(plan.lead)} WHERE ${where.join(' AND ')}
          ${order} LIMIT ${parameters.integer(look.limit + 1)}`,
        values: parameters.values,
      };
    },
  };
}

const PLACE = '(t.at_ms, t.at_ns, t.n)';

function orderOf({ isAscending }: Look): string {
  const direction = isAscending ? 'ASC' : 'DESC';
  return `ORDER BY t.at_ms ${direction}, t.at_ns ${direction}, t.n ${direction}`;
}

/** The columns of the leading indexes before the time. */
const LEAD_COLUMNS: Readonly<Partial<Record<Lead, string>>> = {
  session: 't.session_id',
  user: 't.user_id',
};
/** The conditions of the partial indexes without a column of values. */
const LEAD_CONDITIONS: Readonly<Partial<Record<Lead, string>>> = {
  failed: `(t.errors > 0 OR t.status = ${FAILED})`,
  with_session: 't.session_id IS NOT NULL',
  with_user: 't.user_id IS NOT NULL',
};

/** The part of the leading index that the step is about. */
function rangeOf(
  parameters: Parameters,
  { project }: TraceScope,
  { after, isAscending }: Look,
  { lead, leadValue, ranges }: Plan,
): string[] {
  const where = [`t.project = ${parameters.value(project)}`];
  const column = LEAD_COLUMNS[lead];
  if (column !== undefined && leadValue !== null) {
    where.push(`${column} = ${parameters.text(leadValue)}`);
  }
  const condition = LEAD_CONDITIONS[lead];
  if (condition !== undefined) where.push(condition);
  if (after !== null) {
    where.push(`${PLACE} ${isAscending ? '>' : '<'} ${placeOf(parameters, after)}`);
  }
  for (const range of ranges) where.push(timeCondition(range, parameters));
  return where;
}

/** The conditions of the traces that the step finds. */
function matching(
  parameters: Parameters,
  scope: TraceScope,
  look: Look,
  plan: Plan,
  end: Place | null,
): string[] {
  const where = rangeOf(parameters, scope, look, plan);
  where.push(`t.updated_at >= ${parameters.integer(scope.since)}`);
  if (end !== null) {
    where.push(`${PLACE} ${look.isAscending ? '<=' : '>='} ${placeOf(parameters, end)}`);
  }
  for (const term of plan.rest) where.push(conditionOf(term, parameters, look.staleBefore));
  return where;
}

function placeOf(parameters: Parameters, { ms, ns, n }: Place): string {
  return parameters.integers(ms, ns, n);
}
