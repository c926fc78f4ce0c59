import type { PlanName } from './contract.ts';

/**
 * What the service around the pipeline asks of a database: rows as lists of cells, each method one
 * transaction. The rules are above it, in this folder; a store brings the statements.
 */
export type TenancyRows = {
  /** Makes the organization, project and key that a new store starts with; null when it is not new. */
  first(
    organizationId: string,
    projectId: string,
    name: string,
    keyId: string,
    hash: Uint8Array,
    prefix: string,
    now: number,
  ): Promise<KeyRow | null>;
  organization(): Promise<OrganizationRow>;
  /** Changes nothing where the plan allows fewer projects than there are; resolves with how many fewer. */
  updateOrganization(
    name: string | null,
    plan: PlanName | null,
    allowed: AllowedProjects,
    by: ByRow,
  ): Promise<[row: OrganizationRow, tooMany: number]>;

  /** Null where the plan allows no more. */
  createProject(
    id: string,
    name: string,
    now: number,
    allowed: AllowedProjects,
    by: ByRow,
  ): Promise<ProjectRow | null>;
  updateProject(
    id: string,
    name: string | null,
    settings: ProjectSettings,
    by: ByRow,
  ): Promise<ProjectRow | null>;
  /** Its keys are found no more; all else it holds is taken away afterwards. */
  deleteProject(id: string, now: number, by: ByRow): Promise<'deleted' | 'unknown' | 'last'>;
  project(id: string): Promise<ProjectRow | null>;
  /** Oldest first. */
  projects(): Promise<ProjectRow[]>;
  /** Those with limits of their own. */
  limitedProjects(): Promise<ProjectRow[]>;
  /** Of each project how many traces had an event since then. */
  retainedTraces(
    windows: readonly (readonly [project: string, since: number])[],
  ): Promise<number[]>;
  /** Deleted projects of which something is left. */
  openRemovals(): Promise<string[]>;

  /** Null where there is no such project. */
  createKey(values: NewKey, by: ByRow): Promise<KeyRow | null>;
  /** Null where there is no such key; a revoked one stays as it is. */
  revokeKey(id: string, now: number, by: ByRow): Promise<KeyRow | null>;
  touchKeys(uses: readonly (readonly [id: string, usedAt: number])[]): Promise<void>;
  /** Newest first; null is of all projects. */
  keys(projectId: string | null): Promise<KeyRow[]>;
  keyByHash(hash: Uint8Array): Promise<KeyRow | null>;

  /** Keeps the newest `most` of every project; the counts by hour stay. */
  recordRejections(
    projects: readonly (readonly [project: string, rows: readonly RejectionRow[]])[],
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
  ): Promise<(readonly [n: number, ...RejectionRow])[]>;

  recordAudit(row: AuditRow): Promise<void>;
  /** Newest first, below the number `before`. */
  audit(before: number, limit: number): Promise<(readonly [n: number, ...AuditRow])[]>;

  /** Hours since the epoch, from `from`, below `to`. */
  usedAndRejected(
    from: number,
    to: number,
    project: string | null,
  ): Promise<readonly [used: readonly UsedRow[], rejected: readonly RejectedRow[]]>;
  ledgerChecks(): Promise<LedgerCheck[]>;
};

export type OrganizationRow = readonly [
  id: string,
  name: string,
  plan: PlanName,
  createdAt: number,
];

export type ProjectRow = readonly [
  id: string,
  organization: string,
  name: string,
  createdAt: number,
  retentionDays: number | null,
  eventsPerMonth: number | null,
  bytesPerHour: number | null,
];

/** Columns of a project that change; null in one is none of its own. */
export const PROJECT_SETTINGS = ['retention_days', 'events_per_month', 'bytes_per_hour'] as const;
export type ProjectSettings = Readonly<
  Partial<Record<(typeof PROJECT_SETTINGS)[number], number | null>>
>;

/** Per plan the number of projects it allows; null is any number. */
export type AllowedProjects = Readonly<Record<PlanName, number | null>>;

export type KeyRow = readonly [
  id: string,
  project: string,
  organization: string,
  name: string,
  prefix: string,
  permissions: number,
  createdAt: number,
  lastUsedAt: number | null,
  revokedAt: number | null,
];

export type NewKey = readonly [
  id: string,
  project: string,
  name: string,
  hash: Uint8Array,
  prefix: string,
  permissions: number,
  now: number,
];

/** Who changes something, and when; null where nobody is named, and nothing is noted. */
export type ByRow = readonly [at: number, actor: string, address: string | null] | null;

export type AuditRow = readonly [
  at: number,
  actor: string,
  address: string | null,
  action: string,
  subject: string,
  details: string,
];

export type RejectionRow = readonly [
  at: number,
  key: string,
  path: string,
  code: string,
  reason: string,
  item: string | null,
  count: number,
];

export type RejectedRow = readonly [
  hour: number,
  project: string,
  key: string,
  code: string,
  count: number,
];

/** Accepted in an hour. */
export type UsedRow = readonly [
  hour: number,
  project: string,
  key: string,
  events: number,
  bytes: number,
];

/** Events and bytes of a project and key: in the ledger, and in the batches that are kept. */
export type LedgerCheck = readonly [
  project: string,
  key: string,
  events: number,
  bytes: number,
  keptEvents: number,
  keptBytes: number,
];
