import type { TimeRange } from '../../query/query.ts';
import { keyOfId } from '../rows/observation-row.ts';
import type { Place } from '../rows/place.ts';
import type { Term } from '../rows/trace-terms.ts';
import { FAILED, timeCondition } from './conditions.ts';
import type { Parameters, TraceIndex, UnpostedDialect } from './dialect.ts';
import type { GroupWay, IndexWay, Lead, TextWay } from './plan.ts';

/** The part of a way that a statement is about. */
export type PlaceRange = {
  readonly project: string;
  readonly ranges: readonly TimeRange[];
  readonly isAscending: boolean;
  /** Exclusive; null without a bound. */
  readonly after: Place | null;
  /** Inclusive; null without a bound. */
  readonly end: Place | null;
  /** Whether traces that wait to be posted count. */
  readonly withUnposted: boolean;
};

/** The table that a statement reads first, and its conditions: `t` is `traces`, `p` has the places of postings. */
export type Places = {
  readonly table: 't' | 'p';
  readonly from: string;
  readonly where: readonly string[];
};

/** The columns of a place: `n` is the number of the trace. */
export const PLACE_COLUMNS: Readonly<Record<Places['table'], string>> = {
  t: 't.at_ms, t.at_ns, t.n',
  p: 'p.at_ms, p.at_ns, p.trace AS n',
};

/** `UNION ALL` keeps the order of the lists, and a trace that is in several of them. */
export function placesOf(
  parameters: Parameters,
  way: Lead,
  range: PlaceRange,
  union: 'UNION' | 'UNION ALL',
): Places {
  return merged(listsOf(parameters, way, range), union);
}

/** The lists that have the traces of a way. Those of sessions and users have no trace in common. */
export function listsOf(parameters: Parameters, way: Lead, range: PlaceRange): readonly Places[] {
  switch (way.lead) {
    case 'terms':
      return [
        ...way.terms.map((term) => ({
          ...{ table: 'p' as const, from: 'trace_terms p' },
          where: [`p.term = ${parameters.term(term)}`, ...rangeOf(parameters, 'p', range)],
        })),
        ...unpostedWith(parameters, way.unposted, range),
      ];
    case 'id': {
      const keys = way.values.map((value) =>
        parameters.value(parameters.dialect.storedKey(keyOfId(value))),
      );
      const project = parameters.value(range.project);
      const where = `k.project = ${project} AND k.key IN (${keys.join(', ')})`;
      // The few traces are sorted: no index in the order of time leads to them.
      return [
        {
          ...{ table: 't', from: 'traces t' },
          where: [
            parameters.dialect.tracesOfKeys(where),
            `t.project = ${project}`,
            ...rangeOf(parameters, 't', range),
          ],
        },
      ];
    }
    case 'session':
    case 'user':
      return groupLists(parameters, way, range);
    case 'text':
      return [tracesWithText(parameters, way, range)];
    default:
      return [tracesBy(parameters, way, range, CONDITIONS[way.lead])];
  }
}

/** The traces with a session, or a user, of several. */
function groupLists(
  parameters: Parameters,
  { lead, values }: GroupWay,
  range: PlaceRange,
): readonly Places[] {
  const { inGroupIndexes } = parameters.dialect;
  const column = lead === 'session' ? 't.session_id' : 't.user_id';
  const posted = values.map((value) => {
    const hasValue = `${column} = ${parameters.text(value)}`;
    const condition = inGroupIndexes === undefined ? hasValue : `${hasValue} AND ${inGroupIndexes}`;
    return tracesBy(parameters, { lead }, range, condition);
  });
  const waiting = unpostedThat(parameters, range, ({ notInGroupIndexes }) => {
    const any = values.map((value) => parameters.text(value)).join(', ');
    return `${notInGroupIndexes} AND ${column} IN (${any})`;
  });
  return [...posted, ...waiting];
}

/** The traces without postings that have one of the terms. */
function unpostedWith(
  parameters: Parameters,
  terms: readonly Term[],
  range: PlaceRange,
): readonly Places[] {
  return unpostedThat(parameters, range, (unposted) => {
    const hasOne = terms.map((term) => unposted.hasTerm(term, parameters)).join(' OR ');
    return `(${hasOne})`;
  });
}

/** The traces that wait to be posted and fulfill a condition: they are few, and are sorted. */
function unpostedThat(
  parameters: Parameters,
  range: PlaceRange,
  conditionOf: (unposted: UnpostedDialect) => string,
): readonly Places[] {
  const { unposted } = parameters.dialect;
  if (unposted === undefined || !range.withUnposted) return [];
  const where = [
    unposted.is('t.n'),
    `t.project = ${parameters.value(range.project)}`,
    conditionOf(unposted),
    ...rangeOf(parameters, 't', range),
  ];
  return [{ table: 't', from: unposted.traces, where }];
}

/** Few traces, which are sorted. */
function tracesWithText(parameters: Parameters, { branches }: TextWay, range: PlaceRange): Places {
  const { dialect } = parameters;
  const { texts } = dialect;
  if (texts === undefined) return tracesBy(parameters, { lead: 'time' }, range, 'TRUE');
  const numbers = `${texts.rowsOf(branches, parameters)} UNION ${texts.changes}`;
  const where = [
    `t.project = ${parameters.value(range.project)}`,
    ...rangeOf(parameters, 't', range),
  ];
  const from = `(SELECT t.at_ms, t.at_ns, t.n AS trace FROM (${numbers}) p
    ${dialect.tracesOfPlaces} WHERE ${where.join(' AND ')}) p`;
  return { table: 'p', from, where: [] };
}

/** The conditions of the indexes of some traces. */
const CONDITIONS: Readonly<Record<IndexWay['lead'], string>> = {
  time: 'TRUE',
  failed: `(t.errors > 0 OR t.status = ${FAILED})`,
  with_session: 't.session_id IS NOT NULL',
  with_user: 't.user_id IS NOT NULL',
};

const INDEXES: Readonly<Record<Exclude<Lead['lead'], 'terms' | 'id' | 'text'>, TraceIndex>> = {
  time: 'traces_by_time',
  session: 'traces_by_session',
  user: 'traces_by_user',
  failed: 'failed_traces',
  with_session: 'traces_with_session',
  with_user: 'traces_with_user',
};

function tracesBy(
  parameters: Parameters,
  { lead }: { readonly lead: keyof typeof INDEXES },
  range: PlaceRange,
  condition: string,
): Places {
  return {
    table: 't',
    from: parameters.dialect.traces(INDEXES[lead]),
    where: [
      `t.project = ${parameters.value(range.project)}`,
      ...(condition === 'TRUE' ? [] : [condition]),
      ...rangeOf(parameters, 't', range),
    ],
  };
}

/** One list, or several merged ones. */
function merged(lists: readonly Places[], union: 'UNION' | 'UNION ALL'): Places {
  const [first, ...more] = lists;
  if (first !== undefined && more.length === 0) return first;
  const selects = lists.map(({ table, from, where }) => {
    const columns = table === 'p' ? 'p.at_ms, p.at_ns, p.trace' : 't.at_ms, t.at_ns, t.n AS trace';
    return `SELECT ${columns} FROM ${from} WHERE ${where.join(' AND ')}`;
  });
  return { table: 'p', from: `(${selects.join(` ${union} `)}) p`, where: [] };
}

function rangeOf(
  parameters: Parameters,
  table: Places['table'],
  { ranges, isAscending, after, end }: PlaceRange,
): string[] {
  const place = `(${table}.at_ms, ${table}.at_ns, ${table === 't' ? 't.n' : 'p.trace'})`;
  const where: string[] = [];
  const bound = (comparison: string, { ms, ns, n }: Place): void => {
    where.push(`${place} ${comparison} ${parameters.integers(ms, ns, n)}`);
  };
  if (after !== null) bound(isAscending ? '>' : '<', after);
  if (end !== null) bound(isAscending ? '<=' : '>=', end);
  for (const range of ranges) where.push(timeCondition(range, parameters, table));
  return where;
}

/** In the order of time, from the beginning of the range. */
export function orderOf({ table }: Places, isAscending: boolean): string {
  const direction = isAscending ? 'ASC' : 'DESC';
  const n = table === 't' ? 't.n' : 'p.trace';
  return `ORDER BY ${table}.at_ms ${direction}, ${table}.at_ns ${direction}, ${n} ${direction}`;
}
