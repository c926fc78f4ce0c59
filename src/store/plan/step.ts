import type { Query } from '../../query/query.ts';
import type { Place } from '../rows/place.ts';
import type { Term } from '../rows/trace-terms.ts';
import { conditionOf } from './conditions.ts';
import type { Dialect, ListStatement, TextDialect } from './dialect.ts';
import { Parameters } from './dialect.ts';
import type { PlaceRange } from './places.ts';
import { listsOf, orderOf, PLACE_COLUMNS, placesOf } from './places.ts';
import type { Choice, Lead, Plan, TextWay, WayCount, WayCounts } from './plan.ts';
import { choiceOf, PROBED, PROBED_ROWS, planOf } from './plan.ts';

/** One step of a listing. */
export type Look = {
  readonly query: Query;
  /** The most rows. */
  readonly limit: number;
  /** The step begins behind it. */
  readonly after: Place | null;
  /** The last place of the search, inclusive; null without a bound. */
  readonly until?: Place | null;
  readonly isAscending: boolean;
  /** Traces that a search looks at. */
  readonly size: number;
  /** See `traceOf`. */
  readonly staleBefore: number;
};

/** The traces that a read sees: of one project, with an event since a time in milliseconds since the epoch. */
export type TraceScope = { readonly project: string; readonly since: number };

/**
 * The statements of one step of a listing:
 *
 *   probe ─▶ counts of the ways ─▶ the rarest one leads ─▶ end: the place up to which the step looks ─▶ list: the traces that match
 */
export type StepPlan = {
  /** One row, which `countsOf` reads; undefined if there is only one way. */
  readonly probe: ListStatement | undefined;
  by(counts: WayCounts): StepStatements;
};

export type StepStatements = {
  /**
   * Whether the way finds traces that do not match: the step then looks at `size` of them, and `end` finds the place of the last one.
   */
  readonly isSearch: boolean;
  readonly end: ListStatement;
  /** `end`: the place up to which the step looks, inclusive; null without a bound. In the order of time without `sorting`. */
  list(columns: string, end: Place | null, sorting?: Sorting): ListStatement;
  /** The traces that `list` finds, in no order. It reads no rows of the table if an index has the columns. */
  rows(columns: string, end: Place | null): ListStatement;
};

/** Another order of the traces that a step finds. */
export type Sorting = {
  readonly conditions: (parameters: Parameters) => readonly string[];
  readonly order: string;
};

/** The counts in the cells of a probe; there are none without a probe. */
export function countsOf([withoutTerms = 1, ...cells]: readonly number[]): WayCounts {
  const ways: WayCount[] = [];
  for (let i = 0; i < cells.length; i += 2) {
    ways.push({ traces: cells[i] ?? 0, overflow: cells[i + 1] ?? 0 });
  }
  return { isIndexed: withoutTerms === 0, ways };
}

export function stepPlan(dialect: Dialect, scope: TraceScope, look: Look): StepPlan {
  const plan = planOf(look.query, scope.project, dialect.texts !== undefined);
  return {
    probe: plan.ways.length === 0 ? undefined : probeOf(dialect, scope, look, plan),
    by: (counts) => statementsOf(dialect, scope, look, plan, choiceOf(plan, counts)),
  };
}

function statementsOf(
  dialect: Dialect,
  scope: TraceScope,
  look: Look,
  plan: Plan,
  { lead, also }: Choice,
): StepStatements {
  const { isAscending, staleBefore } = look;
  const range = rangeOf(scope, look, plan);
  const conditionsOf = (parameters: Parameters): string[] => [
    `t.updated_at >= ${parameters.integer(scope.since)}`,
    ...plan.rest.map((term) => conditionOf(term, parameters, staleBefore)),
  ];
  const list: StepStatements['list'] = (columns, end, sorting) => {
    const parameters = new Parameters(dialect);
    const places = placesOf(parameters, lead, { ...range, end: end ?? range.end }, 'UNION');
    const where = [...places.where];
    for (const terms of also) where.push(hasPosting(parameters, terms));
    let { from } = places;
    if (places.table === 'p') {
      from += ` ${dialect.tracesOfPlaces}`;
      where.push(`t.project = ${parameters.value(scope.project)}`);
    }
    where.push(...conditionsOf(parameters), ...(sorting?.conditions(parameters) ?? []));
    const order =
      sorting === undefined ? orderOf(places, isAscending) : `ORDER BY ${sorting.order}`;
    return {
      sql: `SELECT ${columns} FROM ${from} WHERE ${where.join(' AND ')} ${order} LIMIT ${parameters.integer(look.limit + 1)}`,
      values: parameters.values,
    };
  };
  return {
    isSearch: plan.rest.length > 0,
    get end() {
      const parameters = new Parameters(dialect);
      const places = placesOf(parameters, lead, range, 'UNION ALL');
      const { table, from, where } = places;
      return {
        sql: `SELECT ${PLACE_COLUMNS[table]} FROM ${from}
          ${where.length === 0 ? '' : `WHERE ${where.join(' AND ')}`}
          ${orderOf(places, isAscending)} LIMIT 1 OFFSET ${parameters.integer(look.size - 1)}`,
        values: parameters.values,
      };
    },
    list,
    rows(columns, end) {
      const parameters = new Parameters(dialect);
      const lists = listsOf(parameters, lead, { ...range, end: end ?? range.end });
      if (lists.length === 1 || lead.lead === 'terms') return list(columns, end);
      const selects = lists.map(({ from, where }) => {
        const all = [...where, ...conditionsOf(parameters)].join(' AND ');
        return `SELECT ${columns} FROM ${from} WHERE ${all}`;
      });
      return { sql: selects.join(' UNION ALL '), values: parameters.values };
    },
  };
}

function rangeOf({ project }: TraceScope, look: Look, { ranges }: Plan): PlaceRange {
  const { after, isAscending, until = null } = look;
  return { project, ranges, isAscending, after, end: until, withUnposted: true };
}

/** The trace of the place has a posting of any of the terms, or has no postings yet. */
function hasPosting(parameters: Parameters, terms: readonly Term[]): string {
  const { rowByRow, unposted } = parameters.dialect;
  const any = terms.map((term) => parameters.term(term)).join(', ');
  const isPosted = `EXISTS (SELECT 1 FROM trace_terms q WHERE q.term IN (${any}) AND q.at_ms = p.at_ms
    AND q.at_ns = p.at_ns AND q.trace = p.trace ${rowByRow})`;
  return unposted === undefined ? isPosted : `(${unposted.is('p.trace')} OR ${isPosted})`;
}

/**
 * The number of traces without terms, and of each way those of its values and those of its overflow term, up to bounds. Traces that
 * wait to be posted are not counted.
 */
function probeOf(dialect: Dialect, scope: TraceScope, look: Look, plan: Plan): ListStatement {
  const parameters = new Parameters(dialect);
  const range = { ...rangeOf(scope, look, plan), withUnposted: false };
  const count = (lead: Lead): string => {
    const { from, where } = placesOf(parameters, lead, range, 'UNION ALL');
    const conditions = where.length === 0 ? '' : `WHERE ${where.join(' AND ')}`;
    return `(SELECT count(*) FROM (SELECT 1 FROM ${from} ${conditions} LIMIT ${PROBED}) found)`;
  };
  const withoutTerms = `(SELECT count(*) FROM (SELECT 1 FROM ${dialect.traces('traces_without_terms')}
    WHERE t.terms IS NULL ORDER BY t.n LIMIT 1) found)`;
  const counts = plan.ways.flatMap((way) => {
    if (way.lead === 'text') return textCounts(way, parameters, dialect.texts);
    if (way.lead !== 'terms') return [count(way), '0'];
    const { lead, terms, overflow } = way;
    return [terms, [overflow]].map((some) => count({ lead, terms: some, unposted: [] }));
  });
  const cells = [withoutTerms, ...counts].map((cell, i) => `${cell} AS c${i}`);
  return { sql: `SELECT ${cells.join(',\n')}`, values: parameters.values };
}

/** A row of a branch has all of its tokens: there are at most as many as the rarest one has. */
function textCounts(
  { branches }: TextWay,
  parameters: Parameters,
  texts: TextDialect | undefined,
): [rows: string, changes: string] {
  if (texts === undefined) return ['0', `${PROBED_ROWS}`];
  const upTo = (rows: string): string =>
    `(SELECT count(*) FROM (SELECT 1 FROM (${rows} LIMIT ${PROBED_ROWS}) r) found)`;
  const smallest = branches.map((branch) => {
    const counts = branch.map((token) => upTo(texts.rowsWith(token, parameters)));
    return counts.length === 1 ? counts.join() : `${texts.smallest}(${counts.join(', ')})`;
  });
  return [
    smallest.join(' + '),
    `CASE WHEN ${texts.isWhole} THEN ${upTo(texts.changes)} ELSE ${PROBED_ROWS} END`,
  ];
}
