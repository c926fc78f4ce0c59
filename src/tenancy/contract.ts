import { capability } from '../component/capability.ts';
import type { Permission, Tenant, Usage } from '../model/batch.ts';
import type { RefusalCode } from '../model/errors.ts';
import type { RejectionCode } from '../model/rejection.ts';

/**
 * The service around the pipeline: organization, plan, usage, audit and the log of rejections. Part of the
 * `Store` contract (store.ts), held by test/contract/store.ts.
 */

export const PLAN_NAMES = ['free', 'pro', 'scale', 'enterprise'] as const;
export type PlanName = (typeof PLAN_NAMES)[number];

/** What a plan, an organization or a project allows; null is unlimited. */
export type Limits = {
  readonly projects: number | null;
  readonly eventsPerMonth: number | null;
  readonly bytesPerHour: number | null;
  readonly retentionDays: number | null;
};

/** What a project is limited to, beside its organization: the lower limit counts. Null is none of its own. */
export type ProjectLimits = {
  readonly eventsPerMonth: number | null;
  readonly bytesPerHour: number | null;
};

export type Organization = {
  /** `org_…` */
  readonly id: string;
  readonly name: string;
  readonly plan: PlanName;
  /** In force: the plan's, less what the organization overrides. */
  readonly limits: Limits;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
};

export type OrganizationStore = {
  get(): Promise<Organization>;
  /** What this organization would have on each plan. */
  plans(): Promise<Readonly<Record<PlanName, Limits>>>;
  /** Rejects with `StoreError('plan_limit')`, saying how many projects to delete first. */
  update(change: { name?: string; plan?: PlanName }, by?: ChangedBy): Promise<Organization>;
  /** Told at once of every change made through this store. */
  onChange(listener: (organization: Organization) => void): () => void;
};

/** What is counted toward limits within a window. Windows are UTC calendar months and clock hours. */
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

/** Of the organization, and where `project` is set, of the project besides. Null is unlimited. */
export type QuotaLimits = {
  readonly eventsPerMonth: number | null;
  readonly bytesPerHour: number | null;
  readonly project?: ProjectLimits;
};

export type QuotaVerdict =
  | {
      readonly admitted: true;
      /**
       * The time it counts at: the reservation's, or the start of the newest hour seen when the clock has
       * gone back behind it. `reserve`'s goes into `LedgerUsage.at`, so that the ledger counts there too.
       */
      readonly at: number;
      /** Of the counters it was reserved in, where they can be lost: goes into `LedgerUsage.epoch`. */
      readonly epoch?: number;
    }
  | {
      readonly admitted: false;
      readonly code: 'monthly_limit' | 'hourly_limit' | 'exceeds_hourly_limit';
      /** Whose limit it is; absent is the organization's. */
      readonly scope?: 'project';
      /** Milliseconds since the epoch. */
      readonly resetsAt: number;
    };

/**
 * Counters of what is accepted or on its way: the ledger's sums plus what is reserved. A reservation is
 * whole or not at all, and never admits one event or byte above a limit, however many ask at once.
 */
export type UsageCounters = {
  /** Whether the month or the hour is already exhausted; looks at headers' time alone, reserves nothing. */
  peek(tenant: Tenant, limits: QuotaLimits, at: number): QuotaVerdict | Promise<QuotaVerdict>;
  reserve(reservation: Reservation, limits: QuotaLimits): QuotaVerdict | Promise<QuotaVerdict>;
  /**
   * Ends a reservation that was admitted, once: what was made durable stays counted, what was not is given
   * back. Where the batch was made durable by a queue of the same storage, its ledger entry is written
   * already and counts, whatever the rest of the pipeline made of it; else the entry is written now, in
   * the background. `isEntered`: it is known to be written (`RequestContext.isUsageEntered`).
   */
  settle(reservation: Reservation, isDurable: boolean, isEntered?: boolean): void;
  /** Without a project: the organization's. */
  read(organizationId: string, projectId?: string): UsageInForce | Promise<UsageInForce>;
};

/** Offered by whatever keeps a usage ledger: stores, and `file_storage`. */
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
  /** Kept after projects and keys are gone. */
  history(range: {
    from: number;
    to: number;
    by: 'hour' | 'day';
    projectId?: string;
  }): Promise<UsageRow[]>;
  /** Recomputes every sum from the ledger and compares; an empty list is what should come back. */
  verify(): Promise<{ what: string; expected: number; found: number }[]>;
};

/** One refusal, without any payload. */
export type RejectionEntry = {
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly projectId: string;
  readonly keyId: string;
  /** Request path. */
  readonly path: string;
  readonly code: RejectionCode | RefusalCode;
  readonly reason: string;
  /** Id of the item, where known. */
  readonly itemId: string | null;
  /** Items this entry stands for. */
  readonly count: number;
};

export type RejectionStore = {
  /** Written in the background, bounded in memory and per project; never delays an answer. */
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
 * Who makes a change. Where one is named, the change and its audit entry are one transaction: neither is
 * there without the other. A change that changes nothing leaves no entry.
 */
export type ChangedBy = Pick<AuditEntry, 'actor' | 'address'>;

export type AuditStore = {
  /** For what is no change of the store, such as a sign-in. */
  record(entry: AuditEntry): Promise<void>;
  list(page: {
    limit: number;
    cursor?: string;
  }): Promise<{ items: AuditEntry[]; nextCursor: string | null }>;
};

export type KeyRequest = {
  readonly projectId: string;
  readonly name?: string;
  readonly permissions?: readonly Permission[];
};

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
