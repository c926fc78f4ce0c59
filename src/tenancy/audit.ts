import type { Clock } from '../component/component.ts';
import type { AuditEntry, AuditStore, ChangedBy } from './contract.ts';
import { cursorAfter, numberOf } from './cursor.ts';
import type { AuditRow, ByRow, TenancyRows } from './rows.ts';

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
