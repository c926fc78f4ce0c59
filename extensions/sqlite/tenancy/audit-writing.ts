/** The audit log, in the database thread: an entry is in the transaction of the change that it records. */
import type { DatabaseSync } from 'node:sqlite';
import type { AuditEntry } from '../../../src/tenancy/contract.ts';
import type { AuditRow, ByRow } from '../../../src/tenancy/rows.ts';

/** Records a change that was made. Details that are undefined are left out. */
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
  const insert = db.prepare(
    `INSERT INTO audit_log (at, actor, address, action, subject, details)
     VALUES (:at, :actor, :address, :action, :subject, :details)`,
  );
  const record = (row: AuditRow): void => {
    insert.run(row);
  };
  return {
    record,
    note(by, action, subject, details) {
      if (by !== null) record({ ...by, action, subject, details: JSON.stringify(details) });
    },
  };
}
