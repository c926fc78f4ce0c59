import { decodeJsonText } from '../../model/json/decode.ts';
import { endOfText } from '../rows/listed.ts';
import type { ObservationGroup } from '../rows/observation-groups.ts';
import { statusOf } from '../rows/observation-row.ts';
import type { TraceSummary } from '../rows/trace-summary.ts';
import type { RollupField } from './fields.ts';
import { MAX_ROLLUP_VALUE, OTHER, ROLLUP_FIELDS, WHOLE } from './fields.ts';
import { bucketOf } from './histogram.ts';

/** The fields of a trace that have a value each, in the order of the values of a contribution. */
const TRACE_FIELDS = [
  'name',
  'user',
  'session',
  'status',
  'key',
  'environment',
] as const satisfies RollupField[];
const TRACE_FIELD_NUMBERS = TRACE_FIELDS.map((field) => ROLLUP_FIELDS[field]);

/** A value of a trace; null without a value, `TOO_LONG` for one that is counted as `OTHER`. */
type TraceValue = string | null | typeof TOO_LONG;
const TOO_LONG = 0;

/**
 * The numbers that a trace adds to the rollups. Its row keeps them as JSON, so that a change of the trace subtracts exactly the
 * numbers that were added.
 */
export type Contribution = readonly [
  /** Hours since the epoch. */
  hour: number,
  /** Observations, failed ones, tokens of input, output and cached input, cost in 10⁻⁹ USD. */
  sums: readonly number[],
  /** The bucket of the latency of the trace; null without one. */
  latency: number | null,
  values: readonly TraceValue[],
  groups: readonly ObservationGroup[],
];

const HOUR_MS = 3_600_000;

/** A trace with its summary. */
type ContributingTrace = {
  readonly createdAt: number;
  readonly keyId: string | null;
  readonly summary: TraceSummary;
};

export function contributionOf({ createdAt, keyId, summary }: ContributingTrace): Contribution {
  const { startMs, count, errors, facts, latency, name, user, session, environment } = summary;
  const { input_tokens: input, output_tokens: output, cached_tokens: cached } = facts.usage ?? {};
  return [
    Math.floor((startMs ?? createdAt) / HOUR_MS),
    [count, errors, input ?? 0, output ?? 0, cached ?? 0, facts.cost?.total ?? 0],
    latency === null ? null : bucketOf(latency),
    [name, user, session, statusOf(summary.status), keyId, environment].map(bounded),
    summary.groups,
  ];
}

function bounded(value: string | null): TraceValue {
  return value !== null && value.length > MAX_ROLLUP_VALUE ? TOO_LONG : value;
}

export function contributionFromText(text: string): Contribution {
  return decodeJsonText(text) as Contribution;
}

/** A signed change of the row of a value in an hour. */
export type RollupChange = readonly [
  hour: number,
  /** Negative for values without a row of their own. */
  field: number,
  value: string,
  /** Traces, observations, failed ones, tokens of input, output and cached input, cost. */
  numbers: readonly number[],
  /** Bucket, count, bucket, count … */
  latencies: readonly number[],
];

/** The changes of one field that the contribution with this text makes. Those of all fields cost several times as much. */
export function changesOfField(text: string, field: RollupField): RollupChange[] {
  const isOfTrace = field === 'all' || TRACE_FIELDS.some((one) => one === field);
  const contribution = contributionFromText(isOfTrace ? withoutGroups(text) : text);
  return changesOfContribution(contribution, ROLLUP_FIELDS[field]);
}

/** The groups are most of the text of a contribution. The hour, the sums and the latency in front of the values have no text. */
function withoutGroups(text: string): string {
  const sums = text.indexOf('[', 1);
  let at = text.indexOf('[', sums + 1) + 1;
  while (at < text.length && text[at] !== ']') {
    at = text[at] === '"' ? (endOfText(text, at) ?? text.length) : at + 1;
  }
  return `${text.slice(0, at + 1)},[]]`;
}

/** The changes that a contribution makes, one for each value; `only`: those of this field. */
export function changesOfContribution(contribution: Contribution, only?: number): RollupChange[] {
  const changes: RollupChange[] = [];
  visitChanges(contribution, (hour, field, value, sums, latencies) => {
    // Values without a row of their own have the negative field.
    if (only === undefined || Math.abs(field) === only) {
      changes.push([hour, field, value, [1, ...sums], latencies]);
    }
  });
  return changes;
}

/** The parts of a change of one trace. `sums`: its numbers without the number of traces. */
type ChangeVisitor = (
  hour: number,
  field: number,
  value: string,
  sums: readonly number[],
  latencies: readonly number[],
) => void;

/** Calls for each change that a contribution makes. Hot path, runs for every trace of a write: makes no lists. */
export function visitChanges(
  [hour, sums, latency, values, groups]: Contribution,
  visit: ChangeVisitor,
): void {
  const latencies = latency === null ? [] : [latency, 1];
  visit(hour, ROLLUP_FIELDS.all, WHOLE, sums, latencies);
  for (let i = 0; i < TRACE_FIELD_NUMBERS.length; i++) {
    const value = values[i] ?? null;
    const field = TRACE_FIELD_NUMBERS[i] ?? 0;
    if (value === TOO_LONG) visit(hour, -field, OTHER, sums, latencies);
    else if (value !== null) visit(hour, field, value, sums, latencies);
  }
  for (const [field, value, own, ownLatencies] of groups) {
    if (value === null) visit(hour, -field, OTHER, own, ownLatencies);
    else visit(hour, field, value, own, ownLatencies);
  }
}
