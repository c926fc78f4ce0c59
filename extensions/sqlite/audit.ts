import type { Clock } from '../../src/component/component.ts';
import type { Database } from '../../src/sqlite/database.ts';
import type { AuditEntry, AuditStore, ChangedBy } from '../../src/store/tenancy.ts';
import type { AuditRow, ByRow } from './audit-writing.ts';
import { cursorAfter, numberOf } from './cursor.ts';

export function sqliteAudit(database: Database): AuditStore {
  return {
    async record({ at, actor, address, action, subject, details }) {
      const row: AuditRow = [at, actor, address, action, subject, JSON.stringify(details)];
      await database.write('audit.record', [row]);
    },
    async list({ limit, cursor }) {
      const args = [numberOf(cursor), limit + 1];
      const rows = (await database.search('audit.list', args)) as [number, ...AuditRow][];
      const shown = rows.slice(0, limit);
      const last = shown.at(-1);
      const hasMore = rows.length > limit && last !== undefined;
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
