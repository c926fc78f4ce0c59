/**
 * The running pipelines as a graph, with what flowed through each component since `since`. It is plain JSON: the
 * supervisor adds up the reports of its workers.
 */
export type FlowReport = {
  /** When the counters began, in milliseconds since the epoch. */
  readonly since: number;
  readonly nodes: readonly FlowNode[];
  readonly edges: readonly FlowEdge[];
};

export type FlowNode = {
  /** Unique: `receiver:otlp`, `processor:traces/accept:auth`. */
  readonly key: string;
  readonly kind: 'receiver' | 'processor' | 'exporter' | 'connector';
  /** The id of the configuration. */
  readonly id: string;
  readonly type: string;
  /** Of a receiver or processor; exporters and connectors may be in several. */
  readonly pipeline: string | null;
  readonly counts: FlowCounts;
  /** Items that did not pass, by code or reason; of a receiver also requests, under `refused`. */
  readonly codes: Readonly<Record<'rejected' | 'refused' | 'dropped' | 'failed', CountsByCode>>;
  /** Undefined if the component has no duration of its own. */
  readonly durations?: FlowDurations;
};

/** By name; a component has only those that its kind has. */
type FlowCounts = Readonly<Partial<Record<FlowCount, number>>>;
export type FlowCount =
  | 'requests'
  | 'failed_requests'
  | 'items_in'
  | 'items_out'
  | 'items_edited'
  | 'retries';

export type CountsByCode = Readonly<Record<string, number>>;

export type FlowDurations = {
  readonly count: number;
  readonly sum: number;
  /** Seconds. */
  readonly bounds: readonly number[];
  /** How many were at most as long as the bound, and longer than the one before; last those above all. */
  readonly buckets: readonly number[];
};

/** Data flows from one component to the next, in a pipeline. */
export type FlowEdge = {
  readonly from: string;
  readonly to: string;
  readonly pipeline: string;
};
