import type { Clock } from '../component/component.ts';
import type { AuditEntry, AuditStore, ChangedBy } from './contract.ts';
import { cursorAfter, numberOf } from './cursor.ts';
import type { AuditRow, ByRow, TenancyRows } from './rows.ts';

export function auditStore(rows: TenancyRows): AuditStore {
  return {
    async record({ at, actor, address, action, subject, details }) {
      await rows.recordAudit([at, actor, address, action, subject, JSON.stringify(details)]);
    },
    async list({ limit, cursor }) {
      const found = await rows.audit(numberOf(cursor), limit + 1);
      const shown = found.slice(0, limit);
      const last = shown.at(-1);
      const hasMore = found.length > limit && last !== undefined;
      return {
        items: shown.map(([, ...row]) => entryOf(row)),
        nextCursor: hasMore ? cursorAfter(last[0]) : null,
      };
    },
  };
}

/** Who makes a change, as its operation wants it. */
export function byRow(by: ChangedBy | undefined, clock: Clock): ByRow {
  return by === undefined ? null : [clock.now(), by.actor, by.address];
}

function entryOf([at, actor, address, action, subject, details]: AuditRow): AuditEntry {
  return {
    at,
    actor,
    address,
    action,
    subject,
    details: JSON.parse(details) as AuditEntry['details'],
  };
}
