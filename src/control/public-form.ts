import type {
  ApiKey,
  AuditEntry,
  Limits,
  Organization,
  PlanName,
  Project,
  RejectionEntry,
  UsageInForce,
  UsageRow,
} from '../tenancy/contract.ts';

/** The JSON of projects, keys, plans and usage in the admin API and in commands with `--json`. */

export type ShownProject = {
  readonly id: string;
  readonly name: string;
  readonly retained_traces: number;
  readonly retention: { readonly days: number | null };
  /** The project's own limits; null is no own limit. */
  readonly limits: Pick<ShownLimits, 'events_per_month' | 'bytes_per_hour'>;
  readonly created_at: string;
};

export function shownProject(project: Project): ShownProject {
  return {
    id: project.id,
    name: project.name,
    retained_traces: project.retainedTraces,
    retention: { days: project.retention.days },
    limits: {
      events_per_month: project.limits.eventsPerMonth,
      bytes_per_hour: project.limits.bytesPerHour,
    },
    created_at: time(project.createdAt),
  };
}

export type ShownKey = {
  readonly id: string;
  readonly name: string;
  readonly prefix: string;
  readonly permissions: readonly string[];
  readonly created_at: string;
  readonly last_used_at: string | null;
  readonly revoked_at: string | null;
};

export function shownKey(key: ApiKey): ShownKey {
  return {
    id: key.id,
    name: key.name,
    prefix: key.prefix,
    permissions: key.permissions,
    created_at: time(key.createdAt),
    last_used_at: timeOrNull(key.lastUsedAt),
    revoked_at: timeOrNull(key.revokedAt),
  };
}

export type ShownUsage = {
  readonly month: { readonly events: number; readonly resets_at: string };
  readonly hour: { readonly bytes: number; readonly resets_at: string };
};

export function shownUsage({ month, hour }: UsageInForce): ShownUsage {
  return {
    month: { events: month.events, resets_at: time(month.resetsAt) },
    hour: { bytes: hour.bytes, resets_at: time(hour.resetsAt) },
  };
}

export type ShownOrganization = {
  readonly id: string;
  readonly name: string;
  readonly plan: string;
  readonly limits: ShownLimits;
  readonly usage: ShownUsage;
};

type ShownLimits = {
  readonly projects: number | null;
  readonly events_per_month: number | null;
  readonly bytes_per_hour: number | null;
  readonly retention_days: number | null;
};

export function shownOrganization(
  organization: Organization,
  inForce: UsageInForce,
): ShownOrganization {
  const { id, name, plan, limits } = organization;
  return { id, name, plan, limits: shownLimits(limits), usage: shownUsage(inForce) };
}

export type ShownPlan = { readonly name: PlanName; readonly limits: ShownLimits };

export function shownPlans(plans: Readonly<Record<PlanName, Limits>>): { plans: ShownPlan[] } {
  const all = Object.entries(plans) as [PlanName, Limits][];
  return { plans: all.map(([name, limits]) => ({ name, limits: shownLimits(limits) })) };
}

function shownLimits(limits: Limits): ShownLimits {
  return {
    projects: limits.projects,
    events_per_month: limits.eventsPerMonth,
    bytes_per_hour: limits.bytesPerHour,
    retention_days: limits.retentionDays,
  };
}

export type ShownUsageRow = {
  readonly period: string;
  readonly project_id: string;
  readonly key_id: string;
  readonly events: number;
  readonly bytes: number;
  readonly rejected: Readonly<Record<string, number>>;
};

export function shownUsageRow(row: UsageRow): ShownUsageRow {
  return {
    period: row.period,
    project_id: row.projectId,
    key_id: row.keyId,
    events: row.events,
    bytes: row.bytes,
    rejected: row.rejected,
  };
}

export type ShownRejection = {
  readonly at: string;
  readonly project_id: string;
  readonly key_id: string;
  readonly path: string;
  readonly code: string;
  readonly reason: string;
  readonly item_id: string | null;
  readonly client: string | null;
  readonly count: number;
};

export function shownRejection(entry: RejectionEntry): ShownRejection {
  return {
    at: time(entry.at),
    project_id: entry.projectId,
    key_id: entry.keyId,
    path: entry.path,
    code: entry.code,
    reason: entry.reason,
    item_id: entry.itemId,
    client: entry.client,
    count: entry.count,
  };
}

export type ShownAuditEntry = {
  readonly at: string;
  readonly actor: string;
  readonly address: string | null;
  readonly action: string;
  readonly subject: string;
  readonly details: AuditEntry['details'];
};

export function shownAuditEntry(entry: AuditEntry): ShownAuditEntry {
  return { ...entry, at: time(entry.at) };
}

function time(milliseconds: number): string {
  return new Date(milliseconds).toISOString();
}

function timeOrNull(milliseconds: number | null): string | null {
  return milliseconds === null ? null : time(milliseconds);
}
