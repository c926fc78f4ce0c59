import type { ChangedBy, PlanName } from './contract.ts';

/**
 * The database operations that the tenancy rules need. Each method is one transaction. The rules are in this
 * folder; a store brings the statements.
 */
export type TenancyRows = {
  /** Creates the organization, project and key of a new store. Null if the store is not new. */
  first(first: FirstRows): Promise<KeyRow | null>;
  organization(): Promise<OrganizationRow>;
  /** Changes nothing if the plan allows fewer projects than exist. */
  updateOrganization(
    name: string | null,
    plan: PlanName | null,
    allowed: AllowedProjects,
    by: ByRow,
  ): Promise<UpdatedOrganization>;

  /** Null if the plan allows no more projects. */
  createProject(
    id: string,
    name: string,
    now: number,
    allowed: AllowedProjects,
    by: ByRow,
  ): Promise<ProjectRow | null>;
  /** Null if the project does not exist. */
  updateProject(
    id: string,
    name: string | null,
    settings: ProjectSettings,
    by: ByRow,
  ): Promise<ProjectRow | null>;
  /** Lookups of its keys fail from then on; housekeeping removes everything else the project holds. */
  deleteProject(id: string, now: number, by: ByRow): Promise<ProjectDeletion>;
  project(id: string): Promise<ProjectRow | null>;
  /** Oldest first. */
  projects(): Promise<ProjectRow[]>;
  /** The projects that have limits of their own. */
  limitedProjects(): Promise<ProjectRow[]>;
  /** For each window, in order: how many traces of the project have an event since then. */
  retainedTraces(windows: readonly RetentionWindow[]): Promise<number[]>;
  /** Deleted projects that still hold data. */
  openRemovals(): Promise<string[]>;

  /** Null if the project does not exist. */
  createKey(key: NewKey, by: ByRow): Promise<KeyRow | null>;
  /** Null if the key does not exist. A second revocation changes nothing. */
  revokeKey(id: string, now: number, by: ByRow): Promise<KeyRow | null>;
  touchKeys(uses: readonly KeyUse[]): Promise<void>;
  /** Newest first; null selects all projects. */
  keys(projectId: string | null): Promise<KeyRow[]>;
  keyByHash(hash: Uint8Array): Promise<KeyRow | null>;
  /** The hashes of all keys that are not revoked, or of those in `among`; sorted, one after the other. */
  activeKeyHashes(among?: readonly Uint8Array[]): Promise<Uint8Array>;

  /** Keeps the newest `most` entries of every project; the counts per hour stay. */
  recordRejections(
    projects: readonly ProjectRejections[],
    counts: readonly RejectedRow[],
    most: number,
    isLast: boolean,
  ): Promise<void>;
  /** Newest first, below the number `before`. */
  rejections(
    project: string,
    before: number,
    since: number,
    limit: number,
  ): Promise<Numbered<RejectionRow>[]>;

  recordAudit(row: AuditRow): Promise<void>;
  /** Newest first, below the number `before`. */
  /** Newest first. */
  audit(before: number, limit: number, matching: AuditMatching): Promise<Numbered<AuditRow>[]>;

  /** From the hour `from` since the epoch, below `to`, summed up by periods of that many hours. */
  usedAndRejected(
    from: number,
    to: number,
    periodHours: number,
    project: string | null,
  ): Promise<UsageHistory>;
  /** As of one moment, read in steps. */
  ledgerChecks(progress: VerifyProgress): Promise<readonly LedgerCheck[]>;
};

/** Called after each step of a verification with the number of rows that it read. */
export type VerifyProgress = (rows: number) => void;

export type FirstRows = {
  readonly organizationId: string;
  readonly projectId: string;
  /** Of the organization, the project and the key. */
  readonly name: string;
  readonly keyId: string;
  readonly hash: Uint8Array;
  readonly prefix: string;
  readonly now: number;
};

export type OrganizationRow = {
  readonly id: string;
  readonly name: string;
  readonly plan: PlanName;
  readonly createdAt: number;
};

export type UpdatedOrganization = {
  readonly organization: OrganizationRow;
  /** How many projects exist beyond those that the wanted plan allows; above 0, nothing was changed. */
  readonly tooMany: number;
};

export type ProjectRow = {
  readonly id: string;
  readonly organization: string;
  readonly name: string;
  readonly createdAt: number;
  readonly retentionDays: number | null;
  readonly eventsPerMonth: number | null;
  readonly bytesPerHour: number | null;
};

export type ProjectDeletion = 'deleted' | 'unknown' | 'last';

/** Columns of a project that can be changed; null removes the project's own value. */
export const PROJECT_SETTINGS = ['retention_days', 'events_per_month', 'bytes_per_hour'] as const;
export type ProjectSettings = Readonly<
  Partial<Record<(typeof PROJECT_SETTINGS)[number], number | null>>
>;

/** The number of projects that each plan allows; null is any number. */
export type AllowedProjects = Readonly<Record<PlanName, number | null>>;

/** Milliseconds since the epoch from which a project keeps its traces. */
export type RetentionWindow = { readonly project: string; readonly since: number };

export type KeyRow = {
  readonly id: string;
  readonly project: string;
  readonly organization: string;
  readonly name: string;
  readonly prefix: string;
  readonly permissions: number;
  readonly createdAt: number;
  readonly lastUsedAt: number | null;
  readonly revokedAt: number | null;
};

export type NewKey = {
  readonly id: string;
  readonly project: string;
  readonly name: string;
  readonly hash: Uint8Array;
  readonly prefix: string;
  readonly permissions: number;
  readonly createdAt: number;
};

export type KeyUse = { readonly id: string; readonly usedAt: number };

/** Null matches every entry. A project matches entries about it, and those whose details name it. */
export type AuditMatching = readonly [
  from: number,
  to: number,
  action: string | null,
  actor: string | null,
  project: string | null,
];

/** The actor of a change and its time; null if the caller names no actor: the audit log gets no entry. */
export type ByRow = (ChangedBy & { readonly at: number }) | null;

/** A row of a log, with its number for paging. */
export type Numbered<Row> = Row & { readonly n: number };

export type AuditRow = {
  readonly at: number;
  readonly actor: string;
  readonly address: string | null;
  readonly action: string;
  readonly subject: string;
  /** JSON. */
  readonly details: string;
};

export type RejectionRow = {
  readonly at: number;
  readonly key: string;
  readonly path: string;
  readonly code: string;
  readonly reason: string;
  readonly item: string | null;
  readonly client: string | null;
  readonly count: number;
};

export type ProjectRejections = {
  readonly project: string;
  readonly rows: readonly RejectionRow[];
};

/** Rejected items in a period, which is named by its first hour. */
export type RejectedRow = {
  readonly hour: number;
  readonly project: string;
  readonly key: string;
  readonly code: string;
  readonly count: number;
};

/** Accepted usage in a period, which is named by its first hour. */
export type UsedRow = {
  readonly hour: number;
  readonly project: string;
  readonly key: string;
  readonly events: number;
  readonly bytes: number;
};

export type UsageHistory = {
  readonly used: readonly UsedRow[];
  readonly rejected: readonly RejectedRow[];
};

/** Events and bytes of a project and key: in the ledger, and in the batches that the store keeps. */
export type LedgerCheck = {
  /** The batch, if this is the row of one batch in the ledger; otherwise this is a sum. */
  readonly batchId?: string;
  readonly project: string;
  readonly key: string;
  readonly events: number;
  readonly bytes: number;
  readonly keptEvents: number;
  readonly keptBytes: number;
};
