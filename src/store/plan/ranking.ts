import type { RankedTrace, RankField, RankLook } from '../ranking.ts';
import type { Place } from '../rows/place.ts';
import type { Dialect, ListStatement, Parameters } from './dialect.ts';
import type { WayCounts } from './plan.ts';
import type { Look, Sorting, TraceScope } from './step.ts';
import { stepPlan } from './step.ts';

/** See `traceOf` for `staleBefore`. */
export type RankStepLook = RankLook & Pick<Look, 'staleBefore'>;

export type RankPlan = {
  /** See `StepPlan`. */
  readonly probe: ListStatement | undefined;
  by(counts: WayCounts): RankStatements;
};

/** `list` needs the `end` of the step. Its columns are value, at_ms, at_ns and n. */
type RankStatements = {
  readonly end: ListStatement;
  list(end: Place | null): ListStatement;
};

export function rankPlan(dialect: Dialect, scope: TraceScope, look: RankStepLook): RankPlan {
  const { by, isAscending } = look;
  const steps = stepPlan(dialect, scope, { ...look, isAscending: false });
  const value = rankValue(by, isAscending);
  return {
    probe: steps.probe,
    by(counts) {
      const statements = steps.by(counts);
      return {
        get end() {
          return statements.end;
        },
        list: (end) =>
          statements.list(`${value} AS value, t.at_ms, t.at_ns, t.n`, end, sortingOf(look, value)),
      };
    },
  };
}

/** JavaScript cannot read every integer of 64 bits. Sums beyond the safe ones are equal, and sorted by time. */
const boundedSum = (column: string): string =>
  `CASE WHEN ${column} > ${Number.MAX_SAFE_INTEGER} THEN ${Number.MAX_SAFE_INTEGER} ELSE ${column} END`;

const VALUES: Readonly<Record<RankField, string>> = {
  latency: 't.latency',
  cost: boundedSum('t.cost'),
  tokens: boundedSum('t.tokens'),
};

/** A trace without the value is behind all others. */
function rankValue(by: RankField, isAscending: boolean): string {
  return `coalesce(${VALUES[by]}, ${isAscending ? Number.MAX_SAFE_INTEGER : -1})`;
}

function sortingOf({ by, isAscending, behind, before }: RankStepLook, value: string): Sorting {
  const rank = `(${value}, t.at_ms, t.at_ns, t.n)`;
  const rowOf = (trace: RankedTrace, parameters: Parameters): string => {
    const { value, ms, ns, n } = trace;
    const first = by === 'latency' ? parameters.real(value) : parameters.integer(value);
    return `(${first}, ${[ms, ns, n].map((one) => parameters.integer(one)).join(', ')})`;
  };
  const [further, nearer] = isAscending ? ['>', '<'] : ['<', '>'];
  const direction = isAscending ? 'ASC' : 'DESC';
  return {
    conditions: (parameters) => [
      ...(behind === null ? [] : [`${rank} ${further} ${rowOf(behind, parameters)}`]),
      ...(before === null ? [] : [`${rank} ${nearer} ${rowOf(before, parameters)}`]),
    ],
    order: ['value', 't.at_ms', 't.at_ns', 't.n'].map((one) => `${one} ${direction}`).join(', '),
  };
}
