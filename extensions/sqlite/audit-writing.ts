/** The audit log, in the database thread: an entry stands in the transaction of what it is about. */
import type { DatabaseSync } from 'node:sqlite';
import type { AuditEntry } from '../../src/tenancy/contract.ts';
import type { AuditRow, ByRow } from '../../src/tenancy/rows.ts';

export const AUDIT_SCHEMA = `
  CREATE TABLE IF NOT EXISTS audit_log (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    address TEXT,
    action TEXT NOT NULL,
    subject TEXT NOT NULL,
    details TEXT NOT NULL
  ) STRICT;
  CREATE TRIGGER IF NOT EXISTS audit_log_is_not_changed BEFORE UPDATE ON audit_log
    BEGIN SELECT raise(ABORT, 'the audit log is only added to'); END;
  CREATE TRIGGER IF NOT EXISTS audit_log_is_not_shortened BEFORE DELETE ON audit_log
    BEGIN SELECT raise(ABORT, 'the audit log is only added to'); END;
`;

const COLUMNS = 'at, actor, address, action, subject, details';

/** Notes a change that was made. Details that are undefined are left out. */
export type NoteChange = (
  by: ByRow,
  action: string,
  subject: string,
  details: Readonly<Record<string, AuditEntry['details'][string] | undefined>>,
) => void;

export function auditWriting(db: DatabaseSync): {
  record(row: AuditRow): void;
  note: NoteChange;
} {
  const insert = db.prepare(`INSERT INTO audit_log (${COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)`);
  const record = ({ at, actor, address, action, subject, details }: AuditRow): void => {
    insert.run(at, actor, address, action, subject, details);
  };
  return {
    record,
    note(by, action, subject, details) {
      if (by !== null) record({ ...by, action, subject, details: JSON.stringify(details) });
    },
  };
}
