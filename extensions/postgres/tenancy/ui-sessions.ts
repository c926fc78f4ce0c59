/** Sessions of the web UI and their one-time codes. */
import type { Clock } from '../../../src/component/component.ts';
import { byRow } from '../../../src/tenancy/audit.ts';
import type { ByRow } from '../../../src/tenancy/rows.ts';
import type { NewUiSession, UiSession, UiSessionStore } from '../../../src/tenancy/ui-sessions.ts';
import type { PostgresTransaction } from '../connection/pool.ts';
import type { PostgresPools } from '../connection/pools.ts';
import { row, rows } from '../connection/statement.ts';
import { insertAudit } from './log-rows.ts';
import { toStored, withText } from './stored-text.ts';

/** Columns of type `UiSession`, with stored texts. */
const COLUMNS = `id, signed_in_with AS "signedInWith", created_at AS "createdAt",
  last_used_at AS "lastUsedAt", expires_at AS "expiresAt", address, user_agent AS "userAgent"`;

/** Reads use the connections of writes: a pool of a replica may not have the session yet that a write just created. */
export function postgresUiSessions(
  { accept: postgres }: Pick<PostgresPools, 'accept'>,
  clock: Clock,
): UiSessionStore {
  return {
    addCode: ({ hash, expiresAt }, { now, most }, by) =>
      postgres.transaction(async (client) => {
        await client.query('DELETE FROM ui_codes WHERE expires_at <= $1', [now]);
        await client.query('INSERT INTO ui_codes VALUES ($1, $2)', [hash, expiresAt]);
        await client.query(
          `DELETE FROM ui_codes WHERE hash IN (
             SELECT hash FROM ui_codes ORDER BY expires_at DESC OFFSET $1)`,
          [most],
        );
        const details = { expires_at: new Date(expiresAt).toISOString() };
        await note(client, byRow(by, clock), 'ui_code.create', 'ui', details);
      }),
    open: (session, { code, replaces, most }, by) =>
      postgres.transaction(async (client) => {
        const now = session.createdAt;
        if (code !== undefined && !(await takeCode(client, code, now))) return false;
        await client.query('DELETE FROM ui_sessions WHERE hash = $1 OR expires_at <= $2', [
          replaces ?? null,
          now,
        ]);
        await insert(client, session);
        await client.query(
          `DELETE FROM ui_sessions WHERE hash IN (
             SELECT hash FROM ui_sessions ORDER BY last_used_at DESC OFFSET $1)`,
          [most],
        );
        const details = { signed_in_with: session.signedInWith };
        await note(client, { ...by, at: now }, 'ui_session.create', session.id, details);
        return true;
      }),
    async find(hash, now) {
      const found = await row<UiSession>(
        postgres,
        `SELECT ${COLUMNS} FROM ui_sessions WHERE hash = $1 AND expires_at > $2`,
        [hash, now],
      );
      return found === undefined ? undefined : withText(found);
    },
    async use(hash, lastUsedAt, expiresAt) {
      await postgres.query(
        `UPDATE ui_sessions SET last_used_at = $2, expires_at = greatest(expires_at, $3)
         WHERE hash = $1 AND last_used_at < $2`,
        [hash, lastUsedAt, expiresAt],
      );
    },
    async list(binding, now) {
      const found = await rows<UiSession>(
        postgres,
        `SELECT ${COLUMNS} FROM ui_sessions WHERE binding = $1 AND expires_at > $2
         ORDER BY last_used_at DESC, created_at DESC, id`,
        [binding, now],
      );
      return found.map(withText);
    },
    end: (id, binding, by) =>
      postgres.transaction(async (client) => {
        const ended = await row<{ id: string }>(
          client,
          'DELETE FROM ui_sessions WHERE id = $1 AND binding = $2 RETURNING id',
          [toStored(id), binding],
        );
        if (ended === undefined) return false;
        await note(client, by, 'ui_session.end', id, {});
        return true;
      }),
  };
}

/** Of two transactions that delete one row, the second finds none. */
async function takeCode(
  client: PostgresTransaction,
  hash: Uint8Array,
  now: number,
): Promise<boolean> {
  const taken = await row<{ hash: Uint8Array }>(
    client,
    'DELETE FROM ui_codes WHERE hash = $1 AND expires_at > $2 RETURNING hash',
    [hash, now],
  );
  return taken !== undefined;
}

async function insert(client: PostgresTransaction, session: NewUiSession): Promise<void> {
  const { hash, id, binding, signedInWith, address, userAgent } = session;
  const { createdAt, lastUsedAt, expiresAt } = session;
  await client.query('INSERT INTO ui_sessions VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)', [
    ...[hash, id, binding, signedInWith, createdAt, lastUsedAt, expiresAt],
    ...[address, userAgent].map(toStored),
  ]);
}

async function note(
  client: PostgresTransaction,
  by: ByRow,
  action: string,
  subject: string,
  details: Readonly<Record<string, string>>,
): Promise<void> {
  if (by === null) return;
  await insertAudit(client, { ...by, action, subject, details: JSON.stringify(details) });
}
