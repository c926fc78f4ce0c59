import type { Clock, Logger } from '../../src/component/component.ts';
import type { Permission } from '../../src/model/batch.ts';
import { permissionBits, permissionList } from '../../src/queue/record.ts';
import type { Database } from '../../src/sqlite/database.ts';
import type { ApiKey, KeyStore } from '../../src/store/store.ts';
import { StoreError } from '../../src/store/store.ts';
import type { ChangedBy } from '../../src/store/tenancy.ts';
import { hashToken, makeId, makeToken, shownPrefix } from '../../src/store/token.ts';
import { byRow } from './audit.ts';
import { lastUse } from './last-use.ts';
import type { KeyRow } from './operations.ts';
import { checkName, unknownProject } from './projects.ts';

const ALL: readonly Permission[] = ['ingest:write', 'traces:read'];

export type SqliteKeys = KeyStore & {
  /** Many changed at once: their project is gone. */
  forgetAll(): void;
  /** Writes what was noted, before the database is closed. */
  close(): Promise<void>;
};

export function sqliteKeys(database: Database, clock: Clock, logger: Logger): SqliteKeys {
  const listeners = new Set<(keyId: string | undefined) => void>();
  const uses = lastUse(
    (rows) => database.write('keys.touch', [rows], { lazy: true }).then(() => undefined),
    clock,
    logger,
  );

  const changed = (keyId: string | undefined): void => {
    for (const listener of listeners) listener(keyId);
  };

  async function create(
    request: { projectId: string; name?: string; permissions?: readonly Permission[] },
    by?: ChangedBy,
  ): Promise<{ key: ApiKey; token: string }> {
    const { projectId, name = 'key', permissions = ALL } = request;
    checkName(name);
    checkPermissions(permissions);
    const token = makeToken();
    const values = [
      makeId('key'),
      projectId,
      name,
      hashToken(token),
      shownPrefix(token),
      permissionBits(permissions),
      clock.now(),
    ];
    const args = [values, byRow(by, clock)];
    const row = (await database.write('keys.create', args)) as KeyRow | null;
    if (row === null) throw unknownProject(projectId);
    const key = keyOf(row);
    changed(key.id);
    return { key, token };
  }

  async function revoke(id: string, by?: ChangedBy): Promise<ApiKey> {
    const args = [id, clock.now(), byRow(by, clock)];
    const row = (await database.write('keys.revoke', args)) as KeyRow | null;
    if (row === null) throw new StoreError('unknown_key', `there is no key ${id}`);
    changed(id);
    return keyOf(row);
  }

  return {
    create,
    revoke,
    async list(projectId) {
      return ((await database.read('keys.list', [projectId ?? null])) as KeyRow[]).map(keyOf);
    },
    async findByHash(hash) {
      const row = (await database.read('keys.findByHash', [hash])) as KeyRow | null;
      return row === null ? undefined : keyOf(row);
    },
    touch: uses.note,
    forgetAll: () => changed(undefined),
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    close: uses.close,
  };
}

export function keyOf(row: KeyRow): ApiKey {
  const [
    id,
    projectId,
    organizationId,
    name,
    prefix,
    permissions,
    createdAt,
    lastUsedAt,
    revokedAt,
  ] = row;
  return {
    id,
    projectId,
    organizationId,
    name,
    prefix,
    permissions: permissionList(permissions),
    createdAt,
    lastUsedAt,
    revokedAt,
  };
}

function checkPermissions(permissions: readonly Permission[]): void {
  if (permissions.length > 0 && permissions.every((permission) => ALL.includes(permission))) return;
  throw new StoreError('invalid_permissions', `a key has at least one of ${ALL.join(', ')}`);
}
