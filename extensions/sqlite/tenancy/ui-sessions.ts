import type { Clock } from '../../../src/component/component.ts';
import type { Database } from '../../../src/sqlite/database.ts';
import { byRow } from '../../../src/tenancy/audit.ts';
import type { UiSessionStore } from '../../../src/tenancy/ui-sessions.ts';
import type { StoreOperations } from '../operations.ts';

export function sqliteUiSessions(
  { read, write }: Pick<Database<StoreOperations>, 'read' | 'write'>,
  clock: Clock,
): UiSessionStore {
  return {
    addCode: (code, { now, most }, by) =>
      write('uiSessions.addCode', [code, now, most, byRow(by, clock)]),
    open: (session, request, by) =>
      write('uiSessions.open', [session, request, { ...by, at: session.createdAt }]),
    find: (hash, now) => read('uiSessions.find', [hash, now]),
    use: (...args) => write('uiSessions.use', args),
    list: (binding, now) => read('uiSessions.list', [binding, now]),
    end: (id, binding, by) => write('uiSessions.end', [id, binding, by]),
  };
}
