import { cutText } from '../../model/narrow-limits.ts';
import type { OBSERVATION_KINDS } from '../../model/observation.ts';
import { MAX_ROLLUP_VALUE, MAX_VALUES_OF_TRACE, ROLLUP_FIELDS } from '../rollups/fields.ts';
import type { LatencyHistogram } from '../rollups/histogram.ts';
import { bucketOf, countIn, pairsOf } from '../rollups/histogram.ts';
import type { ObservationRow } from './observation-row.ts';
import { kindOf, ROW } from './observation-row.ts';
import type { Omitted, UsageNode } from './trace-totals.ts';
import { SUMMED_KINDS } from './trace-totals.ts';

/** The observations of a trace with one value of a field. `null` is every value that is too long, or one too many. */
export type ObservationGroup = readonly [
  field: number,
  value: string | null,
  /** Observations, failed ones, tokens of input, output and cached input, cost. */
  sums: readonly number[],
  /** Bucket, count, bucket, count … */
  latencies: readonly number[],
];

/** An observation, and its part of the totals. */
export type GroupedRow = {
  readonly row: ObservationRow;
  readonly tool: string | undefined;
  readonly node: UsageNode;
  readonly isFailed: boolean;
};

/**
 * Groups the observations of a trace by model, kind and tool. The groups leave out the usage and the cost that the totals of the
 * trace omit. In the order of fields and values, so that the order of arrival does not show.
 */
export function observationGroups(
  rows: readonly GroupedRow[],
  omitted: Omitted,
): readonly ObservationGroup[] {
  const fields = {
    model: new Groups(omitted),
    kind: new Groups(omitted),
    tool: new Groups(omitted),
  };
  for (const one of rows) {
    const kind = kindOf(one.row[ROW.KIND]);
    fields.model.add(cutText(one.row[ROW.MODEL]), one);
    fields.kind.add(kind, one);
    fields.tool.add(one.tool ?? (kind === TOOL ? one.row[ROW.NAME] : null), one);
  }
  return [
    ...fields.model.list(ROLLUP_FIELDS.model),
    ...fields.kind.list(ROLLUP_FIELDS.kind),
    ...fields.tool.list(ROLLUP_FIELDS.tool),
  ];
}

const TOOL = 'tool' satisfies (typeof OBSERVATION_KINDS)[number];

/** The sums over the observations of one value. */
class Sums {
  readonly latencies: LatencyHistogram = new Map();
  #observations = 0;
  #failed = 0;
  /** In the order of `SUMMED_KINDS`. */
  readonly #tokens = SUMMED_KINDS.map(() => 0);
  #cost = 0;

  /** In the order of an `ObservationGroup`. */
  get numbers(): number[] {
    return [this.#observations, this.#failed, ...this.#tokens, this.#cost];
  }

  add({ node, isFailed }: GroupedRow, { omittedTokens, omittedCost }: Omitted): void {
    const { start, end, usage, cost } = node;
    this.#observations++;
    if (isFailed) this.#failed++;
    if (start !== null && end !== null && end >= start) {
      countIn(this.latencies, bucketOf(end - start), 1);
    }
    if (usage !== null) {
      for (const [i, kind] of SUMMED_KINDS.entries()) {
        if (omittedTokens[i]?.has(node) !== true) this.#addTokens(i, tokens(usage[kind]));
      }
    }
    if (cost !== null && !omittedCost.has(node)) this.#cost += cost.total;
  }

  #addTokens(kind: number, count: number): void {
    this.#tokens[kind] = (this.#tokens[kind] ?? 0) + count;
  }

  addAll(other: Sums): void {
    this.#observations += other.#observations;
    this.#failed += other.#failed;
    for (const [kind, count] of other.#tokens.entries()) this.#addTokens(kind, count);
    this.#cost += other.#cost;
    for (const [bucket, counted] of other.latencies) countIn(this.latencies, bucket, counted);
  }
}

function tokens(count: number | undefined): number {
  return count === undefined || count < 0 ? 0 : count;
}

/** The groups of one field. */
class Groups {
  readonly #omitted: Omitted;
  readonly #named = new Map<string, Sums>();
  #other: Sums | undefined;

  constructor(omitted: Omitted) {
    this.#omitted = omitted;
  }

  add(value: string | null, one: GroupedRow): void {
    if (value === null) return;
    this.#sumsOf(value).add(one, this.#omitted);
  }

  #sumsOf(value: string): Sums {
    if (value.length > MAX_ROLLUP_VALUE) {
      this.#other ??= new Sums();
      return this.#other;
    }
    let sums = this.#named.get(value);
    if (sums === undefined) {
      sums = new Sums();
      this.#named.set(value, sums);
    }
    return sums;
  }

  list(field: number): ObservationGroup[] {
    const named = [...this.#named].sort(([a], [b]) => (a < b ? -1 : 1));
    for (const [, sums] of named.slice(MAX_VALUES_OF_TRACE)) {
      this.#other ??= new Sums();
      this.#other.addAll(sums);
    }
    const groups: [string | null, Sums][] = named.slice(0, MAX_VALUES_OF_TRACE);
    if (this.#other !== undefined) groups.push([null, this.#other]);
    return groups.map(([value, { numbers, latencies }]) => [
      field,
      value,
      numbers,
      pairsOf(latencies),
    ]);
  }
}
