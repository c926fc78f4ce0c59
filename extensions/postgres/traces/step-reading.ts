/** One step of a walk over traces (`src/store/plan`). */
import type { Dialect, ListStatement } from '../../../src/store/plan/dialect.ts';
import type { Look, TraceScope } from '../../../src/store/plan/step.ts';
import { countsOf, stepPlan } from '../../../src/store/plan/step.ts';
import type { Place } from '../../../src/store/rows/place.ts';
import type { PostgresClient } from '../connection/statement.ts';
import { row, rows } from '../connection/statement.ts';

/** Reads the columns of the traces that a step finds, and the place up to which the step looks. */
export async function readStep<Row extends Readonly<Record<string, unknown>>>(
  client: PostgresClient,
  dialect: Dialect,
  scope: TraceScope,
  look: Look,
  columns: string,
): Promise<{ readonly found: readonly Row[]; readonly end: Place | null }> {
  const ways = stepPlan(dialect, scope, look);
  const plan = ways.by(countsOf(await countsOfProbe(client, ways.probe)));
  const end = plan.isSearch ? await endOfStep(client, plan.end) : null;
  const { sql, values } = plan.list(columns, end);
  return { found: await rows<Row>(client, sql, values), end };
}

/** The cells of a probe; there are none without one. */
export async function countsOfProbe(
  client: PostgresClient,
  probe: ListStatement | undefined,
): Promise<readonly number[]> {
  if (probe === undefined) return [];
  const counts = await row<Readonly<Record<string, number>>>(client, probe.sql, probe.values);
  return Object.values(counts ?? {});
}

/** The place of the last trace that a step looks at; null if the range has fewer. */
export async function endOfStep(
  client: PostgresClient,
  { sql, values }: ListStatement,
): Promise<Place | null> {
  return placeOfEnd(await rows<EndRow>(client, sql, values));
}

type EndRow = { readonly at_ms: number; readonly at_ns: number; readonly n: number };

export function placeOfEnd([last]: readonly EndRow[]): Place | null {
  return last === undefined ? null : { ms: last.at_ms, ns: last.at_ns, n: last.n };
}

/** Adds the time that a step took, by the clock `now`. */
export async function timed<Step extends object>(
  now: () => number,
  step: () => Promise<Step>,
): Promise<Step & { readonly spentMs: number }> {
  const begun = now();
  const done = await step();
  return { ...done, spentMs: Math.max(0, now() - begun) };
}
