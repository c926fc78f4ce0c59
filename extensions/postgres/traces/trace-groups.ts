/** Finds sessions and users, and sums over their traces. */
import type {
  GroupLook,
  GroupStep,
  GroupStore,
  GroupSumStep,
  GroupSums,
  StartedGroup,
} from '../../../src/store/groups.ts';
import type { Dialect } from '../../../src/store/plan/dialect.ts';
import type { GroupPlan, GroupStepLook } from '../../../src/store/plan/groups.ts';
import { groupPlan, groupSumPlan } from '../../../src/store/plan/groups.ts';
import type { TraceScope } from '../../../src/store/plan/step.ts';
import { groupSumsOf, groupsOfRows } from '../../../src/store/rows/group-rows.ts';
import type { Place } from '../../../src/store/rows/place.ts';
import type { Postgres } from '../connection/pool.ts';
import type { PostgresClient } from '../connection/statement.ts';
import { question, row, rows } from '../connection/statement.ts';
import { endOfStep, placeOfEnd, timed } from './step-reading.ts';
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
/** The place of the newest trace: arrays are in the order of their elements. */
const NEWEST = ['ms', 'ns', 'n']
  .map(
    (part, i) =>
      `(max(ARRAY[x.at_ms::bigint, x.at_ns::bigint, x.n::bigint]))[${i + 1}] AS newest_${part}`,
  )
  .join(', ');
const SESSIONS =
  'array_agg(DISTINCT x.session_id) FILTER (WHERE x.session_id IS NOT NULL) AS sessions';

export function postgresGroups(
  database: Pick<Postgres, 'transaction'>,
  retention: RetentionWindows,
  { client, dialect, staleBefore, now }: Reading,
): GroupStore {
  const scopeOf = (project: string): TraceScope => ({ project, since: retention.since(project) });
  const lookOf = (look: GroupLook): GroupStepLook => ({ ...look, staleBefore: staleBefore() });
  return {
    findGroups: (projectId, look) =>
      timed(now, () => findGroups(client, dialect, scopeOf(projectId), lookOf(look))),
    sumGroup: (projectId, value, look) =>
      timed(now, () => sumGroup(client, dialect, scopeOf(projectId), value, lookOf(look))),
    startGroups(projectId, values, look) {
      const first = lookOf({ ...look, after: null });
      const plans = values.map((value) => sumPlan(dialect, scopeOf(projectId), value, first));
      return timed(now, () => startGroups(database, values, plans));
    },
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
  const end = await endOfStep(client, plan.end);
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
  readonly newest_ms: number | null;
  readonly newest_ns: number | null;
  readonly newest_n: number | null;
  readonly sessions: readonly string[] | null;
};

function sumPlan(
  dialect: Dialect,
  scope: TraceScope,
  value: string,
  look: GroupStepLook,
): GroupPlan {
  const sessions = look.by === 'user' ? SESSIONS : 'NULL AS sessions';
  return groupSumPlan(dialect, scope, value, look, `${SUMS}, ${NEWEST}, ${sessions}`);
}

export async function sumGroup(
  client: PostgresClient,
  dialect: Dialect,
  scope: TraceScope,
  value: string,
  look: GroupStepLook,
): Promise<Omit<GroupSumStep, 'spentMs'>> {
  const plan = sumPlan(dialect, scope, value, look);
  const end = await endOfStep(client, plan.end);
  const { sql, values } = plan.list(end);
  return { sums: sumsOf(await row<Sums>(client, sql, values)), next: end };
}

/** In two round trips: the ends of all steps, and their sums. */
async function startGroups(
  database: Pick<Postgres, 'transaction'>,
  groups: readonly string[],
  plans: readonly GroupPlan[],
): Promise<{ readonly started: readonly StartedGroup[] }> {
  return database.transaction(async (client) => {
    const ends = await client.together(
      plans.map(({ end: { sql, values } }) => question([sql, values], placeOfEnd)),
    );
    const results = await client.commit(
      plans.map((plan, i) => {
        const { sql, values } = plan.list(ends[i] ?? null);
        return [sql, values];
      }),
    );
    const started = groups.map((value, i): StartedGroup => {
      const found = results[i]?.rows[0] as Sums | undefined;
      return { value, sums: sumsOf(found), newest: newestOf(found), next: ends[i] ?? null };
    });
    return { started };
  });
}

function newestOf(found: Sums | undefined): Place | null {
  const { newest_ms: ms = null, newest_ns: ns = null, newest_n: n = null } = found ?? {};
  return ms === null || ns === null || n === null ? null : { ms, ns, n };
}

function sumsOf(found: Sums | undefined): GroupSums {
  if (found === undefined) throw new Error('sums have no row');
  return groupSumsOf(
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
}
