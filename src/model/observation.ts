/** Spec 2.3, and the kinds an attribute or run type is mapped to. */
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

export const OBSERVATION_OPERATIONS = ['start', 'finish', 'error'] as const;
export type ObservationOperation = (typeof OBSERVATION_OPERATIONS)[number];

/** The payload fields: kept once, in the raw batch, and cut out of it when somebody reads them. */
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
 * raw batch. Absent and null are the same: null, and they erase nothing when events are merged.
 */
export type Observation = {
  /** The observation's id; for OTLP `<trace id>:<span id>`. */
  readonly id: string;
  /**
   * Null only for runs that name no trace. The store finds it by project and id: the run's own, or else that of
   * its parent, where one is named; until that comes, the run stands in a trace of its own id.
   */
  readonly traceId: string | null;
  readonly parentId: string | null;
  /** Position in the request: the index of its raw event id. */
  readonly index: number;
  readonly operation: ObservationOperation;
  /** 0 to 2^64-1 in decimal digits; `0` where none was sent. */
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
  /** Merged over the three places they may stand in (spec 2.6), string values; null when empty. */
  readonly customFields: Readonly<Record<string, string>> | null;
  /** `customFields` as JSON, where it is at hand: what may be megabytes is then not made anew. */
  readonly customFieldsText?: string;
  /** As the client sent them, where the internal ids differ (OTLP), and a run's original run type. */
  readonly external: Readonly<Record<string, string>> | null;
  /** Bit i says that PAYLOAD_FIELDS[i] is present in this event. */
  readonly payloadMask: number;
};

/**
 * Payload fields of one event as JSON text: the very text that was sent for JSON formats, made from the
 * attributes for OTLP. Undefined where absent.
 */
export type Payload = Partial<Record<PayloadField, string>>;
