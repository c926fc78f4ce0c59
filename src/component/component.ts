import type { Batch, Permission, SealedBatch, StoredAnswer, Tenant } from '../model/batch.ts';
import type { Capability, Offer } from './capability.ts';

/**
 * The contract between components. docs/component.md says the same in prose; test/contract/ holds every
 * registered component to it.
 *
 * A component's life: create (no side effects) → start → work → shutdown. `start` is called once,
 * extensions first and receivers last, so that nobody sends into a component that is not ready.
 * `shutdown` is called at most once, receivers first; it is safe without `start`, stops accepting, hands
 * on or refuses all it holds, closes what it opened, and keeps to the deadline.
 */
export type Component = {
  start(): Promise<void>;
  shutdown(deadline: AbortSignal): Promise<void>;
};

/**
 * Takes over a batch. Resolved: somebody downstream, or the disk, has it. Rejected: nobody has; a
 * `RetryableError` may succeed later, a `PermanentError` never will, a `Refusal` is the client's answer.
 * Anything else is a fault of ours and counts as retryable.
 */
export type Consumer = { consume(batch: Batch): Promise<void> };

/** A request before its body: all that authentication and admission may look at. */
export type RequestHead = {
  readonly transport: 'http' | 'grpc';
  readonly method: string;
  /** Path without query string. */
  readonly path: string;
  /** Lower-case names; a name that came more than once has its values in the order they came. */
  readonly headers: ReadonlyMap<string, readonly string[]>;
  readonly remoteAddress: string;
  /** Milliseconds since the epoch. */
  readonly receivedAt: number;
  /** From `content-length`; undefined for a chunked body. */
  readonly declaredBytes: number | undefined;
};

/** A request that may send its body. `release` gives back what admission holds; it is called once. */
export type Admission = { readonly tenant: Tenant; release(): void };

export type IdempotencyClaim =
  | { readonly state: 'new'; release(): void }
  | { readonly state: 'replay'; readonly answer: StoredAnswer }
  | { readonly state: 'conflict' }
  | { readonly state: 'in_progress' };

/** Where answers are kept for `Idempotency-Key`. What `consume` makes durable includes the batch's answer. */
export type IdempotencyLedger = {
  /** Claims the key for the request with this hash; a `new` claim lasts until it is released. */
  claim(tenant: Tenant, key: string, requestHash: Buffer): Promise<IdempotencyClaim>;
};

/** One exporter of a pipeline, as seen by a queue that delivers to each on its own. */
export type Branch = Consumer & { readonly exporterId: string };

/** What stands behind a receiver: the processors and exporters of its pipeline, with counted edges. */
export type Pipeline = Consumer & {
  /** As in the configuration, e.g. `traces/accept`. */
  readonly id: string;
  /**
   * Authenticates and checks the permission. Rejects with a `Refusal` (401, 403, 503).
   * `fallback` is the tenant of a receiver with a `project` of its own, for a pipeline without `auth`.
   */
  authenticate(
    head: RequestHead,
    permission: Permission,
    fallback?: Tenant,
  ): Promise<Tenant> | Tenant;
  /** Authenticates for `ingest:write`, then asks every processor that admits. Rejects with a `Refusal`. */
  admit(head: RequestHead, fallback?: Tenant): Promise<Admission> | Admission;
  /**
   * Runs the processors alone; with `branches`, for a queue that delivers by itself. `again` says that the
   * same batch went through before, so that nothing of it is counted twice.
   */
  process(batch: Batch, again?: boolean): Promise<Batch>;
  readonly branches: readonly Branch[];
  /** Undefined where nothing behind this pipeline can keep an answer. */
  readonly idempotency: IdempotencyLedger | undefined;
  /** Id of the store that `auth` names; undefined for fixed keys. */
  readonly storeId: string | undefined;
  /** The least that its exporters ask for; see there. */
  readonly answerWithin: number | undefined;
};

export type Receiver = Component;

/**
 * Works on batches or on request heads; every part is optional. A processor that authenticates names the
 * tenant; one that admits may refuse on headers alone, before a byte of the body is read.
 */
export type Processor = Component & {
  /** Names the tenant or throws a `Refusal`. Permissions are checked by the pipeline. */
  authenticate?(head: RequestHead): Promise<Tenant> | Tenant;
  /** The store that holds the tenants, for reading requests. */
  readonly storeId?: string;
  /** Asked before anybody authenticates, wherever the processor stands. May throw a `Refusal`. */
  admitUnauthenticated?(head: RequestHead): void;
  /** Told that a request had no valid credential. */
  authenticationFailed?(head: RequestHead): void;
  /** May throw a `Refusal`; what it returns is called once when the request is over. */
  admit?(
    head: RequestHead,
    tenant: Tenant,
  ): Promise<(() => void) | undefined> | (() => void) | undefined;
  /**
   * Resolves with the batch to hand on: the same one, changed or not, or another one. `again`: it is a
   * retry, and what the processor counts of the batch it has counted before.
   */
  process?(batch: Batch, again?: boolean): Promise<Batch> | Batch;
  /** Told once per batch it processed what became of it: durable downstream, or not. */
  settle?(batch: SealedBatch, outcome: 'durable' | 'failed'): void;
};

export type Exporter = Component &
  Consumer & {
    /** Set where this exporter makes answers durable together with the batch. */
    readonly idempotency?: IdempotencyLedger;
    /**
     * Milliseconds that a request may wait for the pipeline in all, where it hangs on other machines; then
     * its client is told to try again. Undefined: as long as it takes.
     */
    readonly answerWithin?: number;
  };

/** Exporter of one pipeline, receiver of others. */
export type Connector = Exporter;

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

/** Time comes in from outside, so that a test can own it. */
export type Clock = {
  /** Milliseconds since the epoch. */
  now(): number;
  /** Calls back once after `ms`; the returned function cancels. Does not keep the process alive. */
  after(ms: number, callback: () => void): () => void;
};

export type Labels = Readonly<Record<string, string>>;
export type Counter = { add(amount: number, labels?: Labels): void };
export type Histogram = { record(value: number, labels?: Labels): void };

/** Own telemetry; src/telemetry implements it. Names are listed in docs/metrics.md. */
export type Metrics = {
  counter(name: string, description: string): Counter;
  histogram(name: string, description: string, unit?: string): Histogram;
  /** `read` is asked at every scrape; returns a function that removes the gauge. */
  gauge(
    name: string,
    description: string,
    read: () => { value: number; labels?: Labels }[],
  ): () => void;
};

/** What a running service offers its components. */
export type Host = {
  /** The offer of a declared extension; throws when it has none (validate has checked the reference). */
  extension<T>(id: string, wanted: Capability<T>): T;
  /** An offer of the service itself, e.g. `LISTENERS` in src/http. */
  service<T>(wanted: Capability<T>): T;
};

/**
 * Which of the daemon's processes this is: `index` runs from 1 to `count`. Where there is one process
 * alone, both are 1; else the others serve the same ports, and each has queues of its own.
 */
export type Worker = { readonly index: number; readonly count: number };
export const ONLY_WORKER: Worker = { index: 1, count: 1 };

/** What every component is created with. */
export type Settings = {
  /** As in the configuration: `otlp`, `otlp/second`. */
  readonly id: string;
  readonly kind: ComponentKind;
  readonly logger: Logger;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly host: Host;
  readonly worker: Worker;
};

export type ComponentKind = 'receiver' | 'processor' | 'exporter' | 'connector' | 'extension';
export type DataKind = Batch['kind'];
