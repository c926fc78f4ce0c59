import type { ObservationDetails } from './details.ts';

/** The kinds of native events, to which attributes of spans and types of runs are mapped. */
export const OBSERVATION_KINDS = [
  'event',
  'span',
  'generation',
  'agent',
  'tool',
  'chain',
  'retriever',
  'evaluator',
  'embedding',
  'guardrail',
  'graph',
  'model',
  'llm',
] as const;
export type ObservationKind = (typeof OBSERVATION_KINDS)[number];

export const OBSERVATION_STATUSES = [
  'pending',
  'running',
  'success',
  'ok',
  'error',
  'interrupted',
  'cancelled',
] as const;
export type ObservationStatus = (typeof OBSERVATION_STATUSES)[number];

/** The formats in which observations arrive. Stores keep positions in this list: append to it, never reorder it. */
export const OBSERVATION_SOURCES = ['native', 'runs', 'otlp'] as const;
export type ObservationSource = (typeof OBSERVATION_SOURCES)[number];

/** The states of a trace. `interrupted`: it has no end, and its newest time is old. */
export const TRACE_STATES = ['running', 'finished', 'error', 'interrupted'] as const;
export type TraceState = (typeof TRACE_STATES)[number];

export const OBSERVATION_OPERATIONS = ['start', 'finish', 'error'] as const;
export type ObservationOperation = (typeof OBSERVATION_OPERATIONS)[number];

/** Fields that stay in the raw batch, their only copy; the read API cuts them out of it. */
export const PAYLOAD_FIELDS = [
  'inputs',
  'outputs',
  'events',
  'metadata',
  'context_metadata',
] as const;
export type PayloadField = (typeof PAYLOAD_FIELDS)[number];

/** An instant, exact to the nanosecond over the years 0000 to 9999. */
export type Instant = {
  /** Whole milliseconds since the epoch; negative before 1970. */
  readonly ms: number;
  /** Nanoseconds past `ms`, 0 to 999999. */
  readonly ns: number;
};

/** Counts of tokens: `input_tokens`, `output_tokens`, `total_tokens`, `cache_read_input_tokens`, … */
export type TokenUsage = Readonly<Record<string, number>>;

export type ObservationError = {
  readonly message: string | null;
  readonly type: string | null;
  readonly stacktrace: string | null;
};

/**
 * One event of an observation in the common form. Narrow fields are decoded; payload fields stay in the
 * raw batch. An absent field is null, and erases nothing when events are merged.
 */
export type Observation = {
  /** The observation's id; for OTLP `<trace id>:<span id>`. */
  readonly id: string;
  /**
   * Null only for runs that name no trace. The store takes the trace of the stored run with this id, else of the
   * parent's; until it knows one of them, the run is in a trace with the run's id.
   */
  readonly traceId: string | null;
  readonly parentId: string | null;
  /** Position in the request: the index of its raw event id. */
  readonly index: number;
  readonly operation: ObservationOperation;
  /** 0 to 2^64-1 in decimal digits; `0` if the event has no version. */
  readonly version: string;
  readonly name: string | null;
  readonly kind: ObservationKind | null;
  readonly status: ObservationStatus | null;
  readonly startTime: Instant | null;
  readonly endTime: Instant | null;
  /** The event says that the observation has ended. */
  readonly ended: boolean;
  readonly model: string | null;
  readonly usage: TokenUsage | null;
  readonly sessionId: string | null;
  readonly userId: string | null;
  readonly error: ObservationError | null;
  /** Merged from all layers by `mergeCustomFields`; null if there are none. */
  readonly customFields: Readonly<Record<string, string>> | null;
  /** `customFields` as JSON text, if known: it may have megabytes, which then need not be printed again. */
  readonly customFieldsText?: string;
  /** Ids as the client sent them, if they differ from the common form; the run type and session of a run. */
  readonly external: Readonly<Record<string, string>> | null;
  readonly details: ObservationDetails | null;
  /** The client sends the observation over both paths: as a run, and as a span. Nothing else links the two. */
  readonly sentTwice?: boolean;
  /** Bit i says that PAYLOAD_FIELDS[i] is present in this event. */
  readonly payloadMask: number;
};

/**
 * Payload fields of one event as JSON text: byte for byte the received text for JSON formats, made from the
 * attributes for OTLP. Absent fields are undefined.
 */
export type Payload = Partial<Record<PayloadField, string>>;
