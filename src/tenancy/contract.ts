import { capability } from '../component/capability.ts';
import type { Permission, Tenant, Usage } from '../model/batch.ts';
import type { RefusalCode } from '../model/errors.ts';
import type { RejectionCode } from '../model/rejection.ts';

/**
 * The contract for projects, keys, organization, plan, usage, audit log and log of rejections. It is part of the
 * `Store` contract (src/store/store.ts); test/contract/tenancy.ts holds both stores to it.
 */

export const PLAN_NAMES = ['free', 'pro', 'scale', 'enterprise'] as const;
export type PlanName = (typeof PLAN_NAMES)[number];

/** Limits of a plan or an organization; null is unlimited. */
export type Limits = {
  readonly projects: number | null;
  readonly eventsPerMonth: number | null;
  readonly bytesPerHour: number | null;
  readonly retentionDays: number | null;
};

/** Limits of a project in addition to those of its organization: the lower one counts. Null is no own limit. */
export type ProjectLimits = {
  readonly eventsPerMonth: number | null;
  readonly bytesPerHour: number | null;
};

export type Organization = {
  /** `org_…` */
  readonly id: string;
  readonly name: string;
  readonly plan: PlanName;
  /** The limits in force: the plan's, with the organization's overrides. */
  readonly limits: Limits;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
};

export type OrganizationStore = {
  get(): Promise<Organization>;
  /** The limits that this organization has on each plan. */
  plans(): Promise<Readonly<Record<PlanName, Limits>>>;
  /** Rejects with `StoreError('plan_limit')`; the message has the number of projects to delete first. */
  update(change: { name?: string; plan?: PlanName }, by?: ChangedBy): Promise<Organization>;
  /** Calls the listener after every change that this store commits. Returns a function that ends the calls. */
  onChange(listener: (organization: Organization) => void): () => void;
};

/** Usage that counts toward the limits of the current windows: UTC calendar months and clock hours. */
export type UsageInForce = {
  readonly month: { readonly events: number; readonly resetsAt: number };
  readonly hour: { readonly bytes: number; readonly resetsAt: number };
};

export type Reservation = {
  readonly batchId: string;
  readonly tenant: Tenant;
  readonly usage: Usage;
  /** Milliseconds since the epoch, when the request was received: decides the windows. */
  readonly at: number;
};

/** Limits of the organization, and of the project if `project` is set. Null is unlimited. */
export type QuotaLimits = {
  readonly eventsPerMonth: number | null;
  readonly bytesPerHour: number | null;
  readonly project?: ProjectLimits;
};

export type QuotaVerdict =
  | {
      readonly admitted: true;
      /**
       * The time at which the usage counts: the reservation's time, or the start of the newest hour seen if the
       * clock has gone back. `reserve` passes it on as `LedgerUsage.at`, so that the ledger counts in the same hour.
       */
      readonly at: number;
      /** The epoch of counters that can be lost; passed on as `LedgerUsage.epoch`. */
      readonly epoch?: number;
    }
  | {
      readonly admitted: false;
      readonly code: 'monthly_limit' | 'hourly_limit' | 'exceeds_hourly_limit';
      /** The project whose limit was reached; absent for a limit of the organization. */
      readonly scope?: 'project';
      /** Milliseconds since the epoch. */
      readonly resetsAt: number;
    };

/**
 * Counters of accepted and reserved usage: the sums of the ledger plus the open reservations. A reservation is
 * all or nothing, and never admits one event or byte above a limit, under any concurrency.
 */
export type UsageCounters = {
  /** Checks whether the month or hour of `receivedAt` is exhausted, without a reservation. */
  peek(tenant: Tenant, limits: QuotaLimits, at: number): QuotaVerdict | Promise<QuotaVerdict>;
  reserve(reservation: Reservation, limits: QuotaLimits): QuotaVerdict | Promise<QuotaVerdict>;
  /**
   * Ends an admitted reservation, once. A durable batch stays counted, a failed one is released. If a queue of
   * the same storage made the batch durable, its ledger entry exists already and counts, whatever the outcome
   * of the pipeline. Else the entry is written in the background. `isEntered`: the entry is known to exist.
   */
  settle(reservation: Reservation, isDurable: boolean, isEntered?: boolean): void;
  /** The usage of a project; without a project, of the organization. */
  read(organizationId: string, projectId?: string): UsageInForce | Promise<UsageInForce>;
};

/** Extensions with a usage ledger offer it: stores, and `file_storage`. */
export const USAGE_COUNTERS = capability<UsageCounters>('usage_counters');

export type UsageRow = {
  /** `2026-11-20` (UTC), or the hour `2026-11-20T21`. */
  readonly period: string;
  readonly projectId: string;
  readonly keyId: string;
  readonly events: number;
  readonly bytes: number;
  /** Rejected items by code, and refused requests by code. */
  readonly rejected: Readonly<Record<string, number>>;
};

export type UsageStore = {
  /** Usage by period. It outlives its projects and keys. */
  history(range: {
    from: number;
    to: number;
    by: 'hour' | 'day';
    projectId?: string;
  }): Promise<UsageRow[]>;
  /**
   * Recomputes every sum from the ledger and compares, in steps that hold up neither accepting nor reading. The list of
   * differences should be empty.
   */
  verify(
    progress?: (rows: number) => void,
  ): Promise<{ what: string; expected: number; found: number }[]>;
};

/** A rejected item or a refused request, without payload. */
export type RejectionEntry = {
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly projectId: string;
  readonly keyId: string;
  /** Request path. */
  readonly path: string;
  readonly code: RejectionCode | RefusalCode;
  readonly reason: string;
  /** Id of the item, if known. */
  readonly itemId: string | null;
  /** The program that sent it, as its `User-Agent` says; null if unknown. */
  readonly client: string | null;
  /** Number of items that the entry covers. */
  readonly count: number;
};

export type RejectionStore = {
  /** Records entries in the background, with bounds in memory and for each project. Never delays an answer. */
  record(entry: RejectionEntry): void;
  /** Newest first. */
  list(
    projectId: string,
    page: { limit: number; cursor?: string },
  ): Promise<{ items: RejectionEntry[]; nextCursor: string | null }>;
};

export type AuditEntry = {
  /** Milliseconds since the epoch. */
  readonly at: number;
  /** `admin-token`, `session:<id>`, `cli`. */
  readonly actor: string;
  readonly address: string | null;
  /** `project.create`, `key.revoke`, … */
  readonly action: string;
  readonly subject: string;
  readonly details: Readonly<Record<string, string | number | boolean | null>>;
};

/**
 * The actor of a change. With an actor, the change and its audit entry are one transaction. A change without
 * an effect leaves no entry.
 */
export type ChangedBy = Pick<AuditEntry, 'actor' | 'address'>;

/** Which entries a listing has; each member narrows it. */
export type AuditFilter = {
  readonly action?: string | undefined;
  readonly actor?: string | undefined;
  /** Entries of the project, of its keys and of its erasures. */
  readonly projectId?: string | undefined;
  /** Milliseconds, inclusive. */
  readonly from?: number | undefined;
  /** Milliseconds, exclusive. */
  readonly to?: number | undefined;
};

export type AuditStore = {
  /** Records an event that is not a change of the store, such as a sign-in. */
  record(entry: AuditEntry): Promise<void>;
  list(
    page: AuditFilter & { limit: number; cursor?: string },
  ): Promise<{ items: AuditEntry[]; nextCursor: string | null }>;
};

export type Project = {
  /** `proj_…` */
  readonly id: string;
  readonly organizationId: string;
  readonly name: string;
  /** Traces whose newest event is still inside the retention window. */
  readonly retainedTraces: number;
  /** The retention in force: the project's own, or the plan's; null is unlimited. */
  readonly retention: { readonly days: number | null };
  /** The project's own limits. */
  readonly limits: ProjectLimits;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
};

/** Absent fields stay unchanged. */
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
  /** The organization of a project, without a count of its traces; undefined if the project does not exist. */
  organizationOf(id: string): Promise<string | undefined>;
  /**
   * `retentionDays: null` restores the plan's retention. Rejects with `StoreError`: `unknown_project`,
   * `invalid_name`, `invalid_retention` (not 1 to 36,500 whole days, or more than the plan's),
   * `invalid_limits` (not a whole number from 1).
   */
  update(id: string, change: ProjectChange, by?: ChangedBy): Promise<Project>;
  /** Limits of the projects that have own ones, by project id. */
  ownLimits(): Promise<ReadonlyMap<string, ProjectLimits>>;
  /** Calls the listener after every change of a project's limits that this store commits. */
  onLimits(listener: (projectId: string, limits: ProjectLimits) => void): () => void;
  /**
   * Resolves when the project, its keys and its data are gone for every reader and writer. The bytes leave the
   * files in steps after that, which a restart continues. Usage stays.
   * Rejects with `StoreError`: `unknown_project`, `last_project`.
   */
  delete(id: string, by?: ChangedBy): Promise<void>;
  /** Calls the listener after every deletion, so that other holders of the project's data remove it. */
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
  /** Only the answer contains the token; the store keeps its SHA-256. */
  create(
    request: { projectId: string; name?: string; permissions?: readonly Permission[] },
    by?: ChangedBy,
  ): Promise<{ key: ApiKey; token: string }>;
  /** Newest first, including revoked keys. */
  list(projectId?: string): Promise<ApiKey[]>;
  /** Idempotent. */
  revoke(id: string, by?: ChangedBy): Promise<ApiKey>;
  /** Finds a key by the SHA-256 of its token, 32 bytes. A revoked key has `revokedAt`. */
  findByHash(hash: Buffer): Promise<ApiKey | undefined>;
  /**
   * The hashes of all keys that are not revoked, 32 bytes each, sorted and without separators. With `among`, only
   * those that it names.
   */
  activeHashes(among?: readonly Uint8Array[]): Promise<Uint8Array>;
  /** Records the last use of a key, in the background, at most once a minute for each key. */
  touch(keyId: string, usedAt: number): void;
  /**
   * Calls the listener after every change of a key that this store commits, with the key's id. The id is
   * undefined when many keys changed at once, because their project was deleted.
   */
  onChange(listener: (keyId: string | undefined) => void): () => void;
};
