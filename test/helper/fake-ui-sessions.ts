import type { AuditEntry, ChangedBy } from '../../src/tenancy/contract.ts';
import type { NewUiSession, UiSession, UiSessionStore } from '../../src/tenancy/ui-sessions.ts';

type Note = (
  by: ChangedBy | undefined,
  action: string,
  subject: string,
  details: AuditEntry['details'],
) => void;

/** Sessions and codes in memory. */
export function fakeUiSessions(note: Note): UiSessionStore {
  const codes = new Map<string, number>();
  const sessions = new Map<string, NewUiSession>();
  const named = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
  const shown = ({ hash: _hash, binding: _binding, ...rest }: NewUiSession): UiSession => rest;
  return {
    async addCode({ hash, expiresAt }, _limits, by) {
      codes.set(named(hash), expiresAt);
      note(by, 'ui_code.create', 'ui', { expires_at: new Date(expiresAt).toISOString() });
    },
    async open(session, { code, replaces }, by) {
      if (code !== undefined) {
        const expiresAt = codes.get(named(code)) ?? 0;
        if (expiresAt <= session.createdAt) return false;
        codes.delete(named(code));
      }
      if (replaces !== undefined) sessions.delete(named(replaces));
      sessions.set(named(session.hash), session);
      const details = { signed_in_with: session.signedInWith };
      note(by, 'ui_session.create', session.id, details);
      return true;
    },
    async find(hash, now) {
      const found = sessions.get(named(hash));
      return found === undefined || found.expiresAt <= now ? undefined : shown(found);
    },
    async use(hash, lastUsedAt, expiresAt) {
      const found = sessions.get(named(hash));
      if (found !== undefined) sessions.set(named(hash), { ...found, lastUsedAt, expiresAt });
    },
    async list(binding, now) {
      return [...sessions.values()]
        .filter((each) => named(each.binding) === named(binding) && each.expiresAt > now)
        .map(shown)
        .toSorted((a, b) => b.lastUsedAt - a.lastUsedAt);
    },
    async end(id, binding, by) {
      const found = [...sessions].find(
        ([, each]) => each.id === id && named(each.binding) === named(binding),
      );
      if (found === undefined) return false;
      sessions.delete(found[0]);
      note(by, 'ui_session.end', id, {});
      return true;
    },
  };
}
