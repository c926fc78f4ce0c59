/** Sessions of the web UI and their one-time codes, in the database thread. */
import type { DatabaseSync } from 'node:sqlite';
import { finds, rows } from '../../../src/sqlite/rows.ts';
import type { ByRow } from '../../../src/tenancy/rows.ts';
import type {
  NewUiSession,
  UiCode,
  UiSession,
  UiSignIn,
} from '../../../src/tenancy/ui-sessions.ts';
import { auditWriting } from './audit-writing.ts';

/** Columns of type `UiSession`. */
const COLUMNS = `id, signed_in_with AS signedInWith, created_at AS createdAt, last_used_at AS lastUsedAt,
  expires_at AS expiresAt, address, user_agent AS userAgent`;

export function uiSessionOperations(db: DatabaseSync) {
  const { note } = auditWriting(db);
  const addCode = db.prepare('INSERT INTO ui_codes VALUES (?, ?)');
  const expireCodes = db.prepare('DELETE FROM ui_codes WHERE expires_at <= ?');
  const trimCodes = db.prepare(
    `DELETE FROM ui_codes WHERE hash IN (
       SELECT hash FROM ui_codes ORDER BY expires_at DESC LIMIT -1 OFFSET ?)`,
  );
  const takeCode = finds(db, 'DELETE FROM ui_codes WHERE hash = ? AND expires_at > ? RETURNING 1');
  const endOld = db.prepare('DELETE FROM ui_sessions WHERE hash = ? OR expires_at <= ?');
  const insert = db.prepare(
    `INSERT INTO ui_sessions VALUES (:hash, :id, :binding, :signedInWith, :createdAt, :lastUsedAt,
       :expiresAt, :address, :userAgent)`,
  );
  const trim = db.prepare(
    `DELETE FROM ui_sessions WHERE hash IN (
       SELECT hash FROM ui_sessions ORDER BY last_used_at DESC LIMIT -1 OFFSET ?)`,
  );
  const use = db.prepare(
    `UPDATE ui_sessions SET last_used_at = ?2, expires_at = max(expires_at, ?3)
     WHERE hash = ?1 AND last_used_at < ?2`,
  );
  const end = finds(db, 'DELETE FROM ui_sessions WHERE id = ? AND binding = ? RETURNING 1');
  return {
    'uiSessions.addCode': (code: UiCode, now: number, most: number, by: ByRow): void => {
      expireCodes.run(now);
      addCode.run(code.hash, code.expiresAt);
      trimCodes.run(most);
      note(by, 'ui_code.create', 'ui', { expires_at: new Date(code.expiresAt).toISOString() });
    },
    'uiSessions.open': (
      session: NewUiSession,
      { code, replaces, most }: UiSignIn,
      by: ByRow,
    ): boolean => {
      if (code !== undefined && !takeCode(code, session.createdAt)) return false;
      endOld.run(replaces ?? null, session.createdAt);
      insert.run(session);
      trim.run(most);
      note(by, 'ui_session.create', session.id, { signed_in_with: session.signedInWith });
      return true;
    },
    'uiSessions.use': (hash: Uint8Array, lastUsedAt: number, expiresAt: number): void => {
      use.run(hash, lastUsedAt, expiresAt);
    },
    'uiSessions.end': (id: string, binding: Uint8Array, by: ByRow): boolean => {
      const isEnded = end(id, binding);
      if (isEnded) note(by, 'ui_session.end', id, {});
      return isEnded;
    },
  };
}

export function uiSessionReadOperations(db: DatabaseSync) {
  const find = rows<UiSession>(
    db,
    `SELECT ${COLUMNS} FROM ui_sessions WHERE hash = ? AND expires_at > ?`,
  );
  const list = rows<UiSession>(
    db,
    `SELECT ${COLUMNS} FROM ui_sessions WHERE binding = ? AND expires_at > ?
     ORDER BY last_used_at DESC, created_at DESC, id`,
  );
  return {
    'uiSessions.find': (hash: Uint8Array, now: number): UiSession | undefined =>
      find.get(hash, now),
    'uiSessions.list': (binding: Uint8Array, now: number): UiSession[] => list.all(binding, now),
  };
}
