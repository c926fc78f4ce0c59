import { capability } from '../component/capability.ts';
import type { ObservationBatch, SealedBatch, Tenant } from '../model/batch.ts';
import type {
  Instant,
  ObservationError,
  ObservationKind,
  ObservationStatus,
  PayloadField,
  TokenUsage,
} from '../model/observation.ts';
import type { QueueStorage } from '../queue/queue.ts';
import type {
  AuditStore,
  KeyStore,
  OrganizationStore,
  ProjectStore,
  RejectionStore,
  UsageCounters,
  UsageStore,
} from '../tenancy/contract.ts';

/**
 * A store: projects, keys, raw batches and the observations made of them. Asynchronous throughout; every
 * reading takes the project it reads for. Implementations are held to test/contract/store.ts.
 * All methods reject with `RetryableError('storage_failed')` when the store cannot be reached, and with
 * `StoreError` when the request itself cannot be carried out.
 */
export type Store = QueueStorage & {
  readonly projects: ProjectStore;
  readonly keys: KeyStore;
  readonly traces: TraceStore;
  readonly organization: OrganizationStore;
  readonly usage: UsageStore;
  readonly counters: UsageCounters;
  readonly rejections: RejectionStore;
  readonly audit: AuditStore;
};

/** Offered by extensions that are a store. */
export const STORE = capability<Store>('store');

/** Points at one event of a stored raw batch. */
export type EventRef = {
  readonly batchId: string;
  /** Position of the item in the stored body. */
  readonly position: number;
};

/** An observation as merged over its events, payload fields by reference. */
export type StoredObservation = {
  readonly projectId: string;
  readonly traceId: string;
  readonly id: string;
  readonly parentId: string | null;
  readonly name: string | null;
  readonly kind: ObservationKind | null;
  readonly status: ObservationStatus | null;
  readonly startTime: Instant | null;
  readonly endTime: Instant | null;
  readonly ended: boolean;
  readonly model: string | null;
  readonly usage: TokenUsage | null;
  readonly sessionId: string | null;
  readonly userId: string | null;
  readonly error: ObservationError | null;
  readonly customFields: Readonly<Record<string, string>> | null;
  /** `customFields` as JSON, where it is at hand. */
  readonly customFieldsText?: string;
  readonly external: Readonly<Record<string, string>> | null;
  /** Decimal digits. */
  readonly version: string;
  readonly source: 'native' | 'runs' | 'otlp';
  /** The event that holds each payload field; absent where no event has it. */
  readonly payload: Partial<Record<PayloadField, EventRef>>;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  readonly updatedAt: number;
};

export type StoredTrace = {
  readonly id: string;
  /** Of the root observation, or the first. */
  readonly name: string | null;
  readonly status: ObservationStatus | null;
  readonly startTime: Instant | null;
  readonly endTime: Instant | null;
  readonly observationCount: number;
  readonly usage: TokenUsage | null;
};

export type TraceFilter = {
  readonly limit: number;
  readonly cursor?: string;
  readonly from?: Instant;
  readonly to?: Instant;
  readonly status?: ObservationStatus;
  readonly kind?: ObservationKind;
  readonly name?: string;
  /** Free text, over names, models and custom fields. */
  readonly query?: string;
};

export type Page<T> = { readonly items: readonly T[]; readonly nextCursor: string | null };

export type TraceStore = {
  /**
   * Merges the observations into their rows (design §4 "Observations") and keeps the raw batch if it is
   * not here yet, all in one transaction. Writing a batch again changes nothing.
   */
  write(batch: ObservationBatch): Promise<void>;
  /** Newest first. Rejects with `StoreError` on a cursor it did not make. */
  listTraces(projectId: string, filter: TraceFilter): Promise<Page<StoredTrace>>;
  getTrace(projectId: string, traceId: string): Promise<StoredTrace | undefined>;
  /** In order of start, then of arrival. */
  listObservations(
    projectId: string,
    traceId: string,
    page: { limit: number; cursor?: string },
  ): Promise<Page<StoredObservation>>;
  /** The newest where the id stands in several traces and none is named. */
  getObservation(
    projectId: string,
    id: string,
    traceId?: string,
  ): Promise<StoredObservation | undefined>;
  /** Raw batches of the project by id; those it does not hold are left out. */
  getBatches(projectId: string, ids: readonly string[]): Promise<SealedBatch[]>;
};

/** Where a tenant's data lives, for reading requests. */
export type TenantStore = { readonly tenant: Tenant; readonly store: Store };
