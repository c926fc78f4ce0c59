import { capability } from '../component/component.ts';
import type { ObservationBatch, Permission, RawBatch, Tenant } from '../model/batch.ts';
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
  ChangedBy,
  OrganizationStore,
  ProjectLimits,
  RejectionStore,
  UsageCounters,
  UsageStore,
} from './tenancy.ts';

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

/** A request that contradicts what the store holds, e.g. `unknown_project`. */
export class StoreError extends Error {
  override readonly name = 'StoreError';
  readonly code:
    | 'unknown_project'
    | 'unknown_key'
    | 'invalid_name'
    | 'invalid_permissions'
    | 'invalid_cursor'
    | 'invalid_retention'
    | 'invalid_limits'
    | 'unknown_plan'
    | 'plan_limit'
    | 'project_limit'
    | 'last_project';

  constructor(code: StoreError['code'], message: string) {
    super(message);
    this.code = code;
  }
}

export type Project = {
  /** `proj_…` */
  readonly id: string;
  readonly organizationId: string;
  readonly name: string;
  /** Traces whose newest event is still inside the retention window. */
  readonly retainedTraces: number;
  /** In force: the project's own, or the plan's; null keeps for ever. */
  readonly retention: { readonly days: number | null };
  /** Its own. */
  readonly limits: ProjectLimits;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
};

/** What is left out stays as it is. */
export type ProjectChange = {
  readonly name?: string;
  readonly retentionDays?: number | null;
  readonly limits?: Partial<ProjectLimits>;
};

export type ProjectStore = {
  /** Rejects with `StoreError('project_limit')` when the plan allows no further project. */
  create(name: string, by?: ChangedBy): Promise<Project>;
  /** Oldest first. */
  list(): Promise<Project[]>;
  get(id: string): Promise<Project | undefined>;
  /**
   * `retentionDays: null` goes back to the plan's. Rejects with `StoreError`: `unknown_project`,
   * `invalid_name`, `invalid_retention` (none of 1 to 36,500 whole days, or more than the plan's),
   * `invalid_limits` (no whole number from 1).
   */
  update(id: string, change: ProjectChange, by?: ChangedBy): Promise<Project>;
  /** Of the projects that have limits of their own, by id. */
  ownLimits(): Promise<ReadonlyMap<string, ProjectLimits>>;
  /** Told at once of limits that were changed through this store. */
  onLimits(listener: (projectId: string, limits: ProjectLimits) => void): () => void;
  /**
   * Resolved: the project, its keys and everything it holds are gone for every reader and writer. The
   * bytes leave the files in steps after that, which a restart continues. Usage stays.
   * Rejects with `StoreError`: `unknown_project`, `last_project`.
   */
  delete(id: string, by?: ChangedBy): Promise<void>;
  /** Told at once of every project deleted through this store, for whoever holds data of it elsewhere. */
  onDelete(listener: (projectId: string) => void): () => void;
};

export type ApiKey = {
  /** `key_…` */
  readonly id: string;
  readonly projectId: string;
  readonly organizationId: string;
  readonly name: string;
  /** The first characters of the token, for display. */
  readonly prefix: string;
  readonly permissions: readonly Permission[];
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  readonly lastUsedAt: number | null;
  readonly revokedAt: number | null;
};

export type KeyStore = {
  /** The token is in the answer and nowhere else: only its SHA-256 is stored. */
  create(
    request: { projectId: string; name?: string; permissions?: readonly Permission[] },
    by?: ChangedBy,
  ): Promise<{ key: ApiKey; token: string }>;
  /** Newest first, revoked ones included. */
  list(projectId?: string): Promise<ApiKey[]>;
  /** Revoking twice changes nothing. */
  revoke(id: string, by?: ChangedBy): Promise<ApiKey>;
  /** By the SHA-256 of the token, 32 bytes; a revoked key is found, with `revokedAt` set. */
  findByHash(hash: Buffer): Promise<ApiKey | undefined>;
  /** Notes that keys were used; written in the background, at most once a minute per key. */
  touch(keyId: string, usedAt: number): void;
  /**
   * Told at once of every change to a key made through this store, with the key's id; without one where
   * many changed together, because their project was deleted.
   */
  onChange(listener: (keyId: string | undefined) => void): () => void;
};

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
  getBatches(projectId: string, ids: readonly string[]): Promise<RawBatch[]>;
};

/** Where a tenant's data lives, for reading requests. */
export type TenantStore = { readonly tenant: Tenant; readonly store: Store };
