import type { Clock } from '../component/component.ts';
import type { AuditEntry, AuditStore, ChangedBy } from './contract.ts';
import { cursorAfter, numberOf } from './cursor.ts';
import type {
  AuditRow,
  ByRow,
  OrganizationRow,
  ProjectRow,
  ProjectSettings,
  TenancyRows,
} from './rows.ts';

export function auditStore(rows: TenancyRows): AuditStore {
  return {
    async record({ at, actor, address, action, subject, details }) {
      const text = JSON.stringify(details);
      await rows.recordAudit({ at, actor, address, action, subject, details: text });
    },
    async list({ limit, cursor, action, actor, projectId, from, to }) {
      const range = [from ?? 0, to ?? Number.MAX_SAFE_INTEGER] as const;
      const matching = [action ?? null, actor ?? null, projectId ?? null] as const;
      const found = await rows.audit(numberOf(cursor), limit + 1, [...range, ...matching]);
      const shown = found.slice(0, limit);
      const last = shown.at(-1);
      const hasMore = found.length > limit && last !== undefined;
      return {
        items: shown.map(entryOf),
        nextCursor: hasMore ? cursorAfter(last.n) : null,
      };
    },
  };
}

/** The actor and the time of a change, for the operation that makes it. */
export function byRow(by: ChangedBy | undefined, clock: Clock): ByRow {
  if (by === undefined) return null;
  const { actor, address } = by;
  return { at: clock.now(), actor, address };
}

type Details = Readonly<Record<string, string | number | null>>;

/** The values of a project that a change replaces by others, for its audit entry. Undefined if there are none. */
export function projectChanges(
  { name, retentionDays, eventsPerMonth, bytesPerHour }: ProjectRow,
  wantedName: string | null,
  settings: ProjectSettings,
): Details | undefined {
  const before = {
    ...{ name, retention_days: retentionDays },
    ...{ events_per_month: eventsPerMonth, bytes_per_hour: bytesPerHour },
  };
  return differing(before, { name: wantedName ?? undefined, ...settings });
}

/** The same for the organization. */
export function organizationChanges(
  { name, plan }: OrganizationRow,
  wanted: { readonly name: string | null; readonly plan: string | null },
): Details | undefined {
  const { name: newName, plan: newPlan } = wanted;
  return differing({ name, plan }, { name: newName ?? undefined, plan: newPlan ?? undefined });
}

function differing(
  before: Details,
  wanted: Readonly<Record<string, string | number | null | undefined>>,
): Details | undefined {
  const changes: Record<string, string | number | null> = {};
  for (const [field, value] of Object.entries(wanted)) {
    if (value !== undefined && value !== before[field]) changes[field] = value;
  }
  return Object.keys(changes).length === 0 ? undefined : changes;
}

function entryOf({ at, actor, address, action, subject, details }: AuditRow): AuditEntry {
  return {
    at,
    actor,
    address,
    action,
    subject,
    details: JSON.parse(details) as AuditEntry['details'],
  };
}
