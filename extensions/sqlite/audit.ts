import type { Database } from '../../src/sqlite/database.ts';
import type { AuditEntry, AuditStore } from '../../src/store/tenancy.ts';
import { cursorAfter, numberOf } from './cursor.ts';
import type { AuditRow } from './log-operations.ts';

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
