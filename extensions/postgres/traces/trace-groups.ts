/** Finds sessions and users, and sums over their traces. */
import type { GroupLook, GroupStep, GroupStore, GroupSumStep } from '../../../src/store/groups.ts';
import type { Dialect } from '../../../src/store/plan/dialect.ts';
import type { GroupStepLook } from '../../../src/store/plan/groups.ts';
import { groupPlan, groupSumPlan } from '../../../src/store/plan/groups.ts';
import type { TraceScope } from '../../../src/store/plan/step.ts';
import { groupSumsOf, groupsOfRows } from '../../../src/store/rows/group-rows.ts';
import type { PostgresClient } from '../connection/statement.ts';
import { row, rows } from '../connection/statement.ts';
import { endOfLook } from './reading.ts';
import { textOrNull } from './text.ts';
import type { Reading, RetentionWindows } from './traces.ts';

const FIRST = 'min(x.at_ms::numeric * 1000000 + x.at_ns)';
const LAST = `max(coalesce(x.end_ms::numeric * 1000000 + coalesce(x.end_ns, 0),
  x.at_ms::numeric * 1000000 + x.at_ns))`;
const parts = (nanoseconds: string, name: string): string =>
  `div(${nanoseconds}, 1000000)::bigint AS ${name}_ms, mod(${nanoseconds}, 1000000)::bigint AS ${name}_ns`;
const SUMS = `count(*) AS traces, sum(x.observations)::float8 AS observations,
  sum(x.errors)::float8 AS errors, sum(x.input_tokens)::float8 AS input_tokens,
  sum(x.output_tokens)::float8 AS output_tokens, sum(x.tokens)::float8 AS tokens,
  sum(x.cost)::float8 AS cost, ${parts(FIRST, 'first')}, ${parts(LAST, 'last')},
  max(x.user_id) AS last_user`;
const SESSIONS =
  'array_agg(DISTINCT x.session_id) FILTER (WHERE x.session_id IS NOT NULL) AS sessions';

export function postgresGroups(
  retention: RetentionWindows,
  { client, dialect, staleBefore, now }: Reading,
): GroupStore {
  const scopeOf = (project: string): TraceScope => ({ project, since: retention.since(project) });
  const lookOf = (look: GroupLook): GroupStepLook => ({ ...look, staleBefore: staleBefore() });
  async function timed<Step>(step: Promise<Step>): Promise<Step & { readonly spentMs: number }> {
    const begun = now();
    return { ...(await step), spentMs: Math.max(0, now() - begun) };
  }
  return {
    findGroups: (projectId, look) =>
      timed(findGroups(client, dialect, scopeOf(projectId), lookOf(look))),
    sumGroup: (projectId, value, look) =>
      timed(sumGroup(client, dialect, scopeOf(projectId), value, lookOf(look))),
  };
}

type WalkedTrace = {
  readonly at_ms: number;
  readonly at_ns: number;
  readonly n: number;
  readonly value: string;
  readonly user_id: string | null;
};

export async function findGroups(
  client: PostgresClient,
  dialect: Dialect,
  scope: TraceScope,
  look: GroupStepLook,
): Promise<Omit<GroupStep, 'spentMs'>> {
  const plan = groupPlan(dialect, scope, look);
  const end = await endOfLook(client, plan.end);
  const { sql, values } = plan.list(end);
  const found = await rows<WalkedTrace>(client, sql, values);
  const groups = groupsOfRows(
    found.map(({ at_ms, at_ns, n, value, user_id }) => [
      at_ms,
      at_ns,
      n,
      textOrNull(value) ?? '',
      textOrNull(user_id),
    ]),
  );
  return { groups, next: end };
}

type Sums = {
  readonly traces: number;
  readonly observations: number | null;
  readonly errors: number | null;
  readonly input_tokens: number | null;
  readonly output_tokens: number | null;
  readonly tokens: number | null;
  readonly cost: number | null;
  readonly first_ms: number | null;
  readonly first_ns: number | null;
  readonly last_ms: number | null;
  readonly last_ns: number | null;
  readonly last_user: string | null;
  readonly sessions: readonly string[] | null;
};

export async function sumGroup(
  client: PostgresClient,
  dialect: Dialect,
  scope: TraceScope,
  value: string,
  look: GroupStepLook,
): Promise<Omit<GroupSumStep, 'spentMs'>> {
  const sessions = look.by === 'user' ? SESSIONS : 'NULL AS sessions';
  const plan = groupSumPlan(dialect, scope, value, look, `${SUMS}, ${sessions}`);
  const end = await endOfLook(client, plan.end);
  const { sql, values } = plan.list(end);
  const found = await row<Sums>(client, sql, values);
  if (found === undefined) throw new Error('sums have no row');
  const sums = groupSumsOf(
    [
      found.traces,
      found.observations,
      found.errors,
      found.input_tokens,
      found.output_tokens,
      found.tokens,
      found.cost,
      found.first_ms,
      found.first_ns,
      found.last_ms,
      found.last_ns,
      textOrNull(found.last_user),
    ],
    (found.sessions ?? []).map((session) => textOrNull(session) ?? ''),
  );
  return { sums, next: end };
}
