import type { Batch, Permission, ReceivedBatch, SealedBatch, Tenant } from '../model/batch.ts';
import type { RequestContext, StoredAnswer } from '../model/request-context.ts';
import type { Capability, Offer } from './capability.ts';

/**
 * The contract between components. docs/component.md says the same in prose; test/contract/ holds every
 * registered component to it.
 *
 * A component's life: create (no side effects) → start → work → shutdown. `start` is called once, extensions first
 * and receivers last, so that no component gets data before it is ready. `shutdown` is called at most once, receivers
 * first. It is safe without `start`, stops accepting, passes on or refuses all data that the component holds, closes
 * what the component opened, and keeps to the deadline.
 */
export type Component = {
  start(): Promise<void>;
  shutdown(deadline: AbortSignal): Promise<void>;
};

/**
 * The data that flows between components, by the name that factories and messages give it:
 *
 *   received       a scanned request; processors that decide on requests change it through the verbs
 *   raw            a sealed batch
 *   observations   normalized observations
 *
 * Receivers emit `received`. The engine seals a received batch before the first processor that accepts another
 * kind, or behind the last one. Queues and exporters never see `received`.
 */
export type DataKind = ReceivedBatch['kind'] | Batch['kind'];

/** The kinds that leave a pipeline. */
export type DurableKind = Batch['kind'];

/** The batch type of a kind: `accepts: ['raw']` gives a component `SealedBatch`. */
type BatchOf<Kind extends DataKind> = Extract<ReceivedBatch | Batch, { kind: Kind }>;

/**
 * Takes over a batch, which stays read-only: other consumers have the same one. Resolved: another component,
 * or the disk, has it. Rejected: no component has it. A `RetryableError` may succeed later, a `PermanentError`
 * never does, a `Refusal` is the client's answer. Any other error is an internal fault and counts as retryable.
 * `request` is the request behind the batch while its client waits; a batch from a queue has none.
 */
export type Consumer<Accepted extends Batch = Batch> = {
  /**
   * Small batches that a queue delivers in one place, for a consumer that saves what arrives together at little more than the cost of
   * one. Undefined: 1.
   */
  readonly batchesTogether?: number | undefined;
  /**
   * The consumer, and the system on its behalf, reads nothing of a batch after `consume` has resolved: a queue may then free the bytes. A
   * socket may still send from them. Undefined: false.
   */
  readonly keepsNothing?: boolean | undefined;
  consume(batch: Accepted, request?: RequestContext): Promise<void>;
};

/** A request before its body: the input of authentication and admission. */
export type RequestHead = {
  readonly transport: 'http' | 'grpc';
  readonly method: string;
  /** Path without query string. */
  readonly path: string;
  /** Lower-case names; a repeated name has its values in the order of the request. */
  readonly headers: ReadonlyMap<string, readonly string[]>;
  readonly remoteAddress: string;
  /** Milliseconds since the epoch. */
  readonly receivedAt: number;
  /** From `content-length`; undefined for a chunked body. */
  readonly declaredBytes: number | undefined;
};

/** A request that may send its body, or read. `release` returns what admission reserved; it is called once. */
export type Admission = { readonly tenant: Tenant; release(): void };

export type IdempotencyClaim =
  | { readonly state: 'new'; release(): void }
  | { readonly state: 'replay'; readonly answer: StoredAnswer }
  | { readonly state: 'conflict' }
  | { readonly state: 'in_progress' };

/** Keeps answers for `Idempotency-Key`: `consume` makes the answer durable together with its batch. */
export type IdempotencyLedger = {
  /**
   * Claims the key for the request with this hash; a `new` claim lasts until it is released. `keptFor`: that of the answers to such
   * requests, in milliseconds, a day by default.
   */
  claim(
    tenant: Tenant,
    key: string,
    requestHash: Buffer,
    keptFor?: number,
  ): Promise<IdempotencyClaim>;
};

/** One exporter of a pipeline, as seen by a queue that delivers to each on its own. */
export type Branch = Consumer & { readonly exporterId: string };

/** The processors and exporters behind a receiver or connector, with counted edges. */
export type Pipeline = {
  /** The id of the configuration, e.g. `traces/accept`. */
  readonly id: string;
  /**
   * Authenticates for `ingest:write`, then asks every processor that admits. Rejects with a `Refusal`.
   * `fallback` is the tenant of a receiver with a `project` of its own, for a pipeline without `auth`.
   */
  admit(head: RequestHead, fallback?: Tenant): Promise<Admission> | Admission;
  /**
   * The same for a request about stored data: authenticates for the permission, `traces:read` by default, then asks every
   * processor that admits reads.
   */
  admitRead(
    head: RequestHead,
    fallback?: Tenant,
    permission?: Permission,
  ): Promise<Admission> | Admission;
  /**
   * Runs the processors, seals the batch and passes it to every exporter. Rejects as `Consumer.consume` does.
   * Resolves with the sealed batch, from which the answer is rendered.
   */
  accept(batch: ReceivedBatch, request: RequestContext): Promise<SealedBatch>;
  /** For a connector that passes batches straight on: runs the processors and passes the result to every exporter. */
  consume(batch: Batch): Promise<void>;
  /**
   * For a queue that delivers to each of `branches` separately: only runs the processors. `again` marks a
   * repeated call for the same batch, so that no item is counted twice.
   */
  process(batch: Batch, again?: boolean): Promise<Batch>;
  readonly branches: readonly Branch[];
  /** Undefined if no exporter of the pipeline keeps answers. */
  readonly idempotency: IdempotencyLedger | undefined;
  /** The offers of its processors, e.g. the store that `auth` names; they change with a reload. */
  readonly offers: readonly Offer[];
  /** The lowest `answerWithin` of its exporters. */
  readonly answerWithin: number | undefined;
};

export type Receiver = Component;

/**
 * Decides on requests: on their heads, before the body is read, and on their items, before the batch is sealed.
 * Every part is optional. It accepts the kind `received`.
 */
export type RequestProcessor = Component & {
  /** Names the tenant or throws a `Refusal`. The pipeline checks permissions. */
  authenticate?(head: RequestHead): Promise<Tenant> | Tenant;
  /** For the receivers of its pipeline, e.g. the store that holds the tenants it names. */
  readonly offers?: readonly Offer[];
  /** Called if the request has no valid credential. May throw a `Refusal` that replaces the 401. */
  authenticationFailed?(head: RequestHead): void;
  /** May throw a `Refusal`; the function it returns is called once, when the request is over. */
  admit?(
    head: RequestHead,
    tenant: Tenant,
  ): Promise<(() => void) | undefined> | (() => void) | undefined;
  /** The same for a reading request, which has no body and is not counted as usage. */
  admitRead?(
    head: RequestHead,
    tenant: Tenant,
  ): Promise<(() => void) | undefined> | (() => void) | undefined;
  /**
   * Changes the batch through the verbs of src/model/verbs.ts; may throw a `Refusal` of the whole request. Undefined as
   * long as the processor has nothing to do.
   */
  readonly process?:
    | ((batch: ReceivedBatch, request: RequestContext) => Promise<void> | void)
    | undefined;
  /** Called once per batch that it processed: the batch is durable downstream, or it failed. */
  settle?(batch: ReceivedBatch, outcome: 'durable' | 'failed', request: RequestContext): void;
};

/** Makes a batch of another one, which stays as it is: other pipelines may have it, too. */
export type BatchProcessor<Kind extends DurableKind = DurableKind> = Component & {
  /** `again` marks a retry: the processor has counted the items of this batch before. */
  process(batch: BatchOf<Kind>, again?: boolean): Promise<Batch> | Batch;
};

export type Processor = RequestProcessor | BatchProcessor;

export type Exporter<Kind extends DurableKind = DurableKind> = Component &
  Consumer<BatchOf<Kind>> & {
    /** Set if this exporter makes answers durable together with the batch. */
    readonly idempotency?: IdempotencyLedger;
    /**
     * Milliseconds that a request may wait for the whole pipeline, if the exporter depends on other machines;
     * then its client is answered 503. Undefined: no limit.
     */
    readonly answerWithin?: number;
  };

/** Exporter of one pipeline, receiver of others. */
export type Connector<Kind extends DurableKind = DurableKind> = Exporter<Kind>;

/** Something that other components use, named by its id in their configuration. */
export type Extension = Component & {
  /** One offer for each capability that its factory lists under `provides`. */
  readonly offers: readonly Offer[];
};

export type Logger = {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
};

/** The only source of time for components, which a test replaces. */
export type Clock = {
  /** Milliseconds since the epoch. */
  now(): number;
  /** Milliseconds since a fixed time of the machine, also while it slept. Nothing sets it, so it shows whether `now` was set. */
  uptime(): number;
  /** Calls back once after `ms`; the returned function cancels. Does not keep the process alive. */
  after(ms: number, callback: () => void): () => void;
};

export type Labels = Readonly<Record<string, string>>;
export type Counter = { add(amount: number, labels?: Labels): void };
export type Histogram = { record(value: number, labels?: Labels): void };

export type GaugePoint = { readonly value: number; readonly labels?: Labels };
export type GaugeReader = () => readonly GaugePoint[] | Promise<readonly GaugePoint[]>;

/** The daemon's own metrics; src/telemetry implements them, and docs/metrics.md lists their names. */
export type Metrics = {
  counter(name: string, description: string): Counter;
  histogram(name: string, description: string, unit?: string): Histogram;
  /**
   * `read` is called at every scrape, which waits for its answer. A read that rejects, or takes too long, shows no
   * value. Returns a function that removes the gauge.
   */
  gauge(name: string, description: string, read: GaugeReader): () => void;
};

/** The offers of a running service to its components. */
export type Host = {
  /** The offer of a declared extension. Throws if it has none; `validate` has checked the reference. */
  extension<T>(id: string, wanted: Capability<T>): T;
  /** An offer of the service itself, e.g. `LISTENERS` in src/http. Throws if there is none. */
  service<T>(wanted: Capability<T>): T;
};

/**
 * The position of this process among the workers of the daemon: `index` runs from 1 to `count`. Workers share ports,
 * and each has queues of its own. Without workers both are 1.
 */
export type Worker = { readonly index: number; readonly count: number };
export const ONLY_WORKER: Worker = { index: 1, count: 1 };

/** The first argument of every `create`. */
export type Settings = {
  /** The id of the configuration: `otlp`, `otlp/second`. */
  readonly id: string;
  readonly kind: ComponentKind;
  readonly logger: Logger;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly host: Host;
  readonly worker: Worker;
};

export type ComponentKind = 'receiver' | 'processor' | 'exporter' | 'connector' | 'extension';
