import type { Clock, Logger } from '../component/component.ts';
import type { Permission } from '../model/batch.ts';
import { StoreError } from '../model/errors.ts';
import { permissionBits, permissionList } from '../model/permissions.ts';
import { byRow } from './audit.ts';
import type { ApiKey, ChangedBy, KeyStore } from './contract.ts';
import { lastUse } from './last-use.ts';
import { checkName, unknownProject } from './projects.ts';
import type { KeyRow, NewKey, TenancyRows } from './rows.ts';
import { hashToken, makeId, makeToken, shownPrefix } from './token.ts';

const ALL: readonly Permission[] = ['ingest:write', 'traces:read'];

export type Keys = KeyStore & {
  /** Announces a change of another process; without an id if many keys changed. */
  changed(keyId: string | undefined): void;
  /** Writes the buffered last uses, before the database is closed. */
  close(): Promise<void>;
};

export function keyStore(rows: TenancyRows, clock: Clock, logger: Logger): Keys {
  const listeners = new Set<(keyId: string | undefined) => void>();
  const uses = lastUse((noted) => rows.touchKeys(noted), clock, logger);

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
    const added: NewKey = {
      id: makeId('key'),
      project: projectId,
      name,
      hash: hashToken(token),
      prefix: shownPrefix(token),
      permissions: permissionBits(permissions),
      createdAt: clock.now(),
    };
    const row = await rows.createKey(added, byRow(by, clock));
    if (row === null) throw unknownProject(projectId);
    const key = keyOf(row);
    changed(key.id);
    return { key, token };
  }

  async function revoke(id: string, by?: ChangedBy): Promise<ApiKey> {
    const row = await rows.revokeKey(id, clock.now(), byRow(by, clock));
    if (row === null) throw new StoreError('unknown_key', `key ${id} does not exist`);
    changed(id);
    return keyOf(row);
  }

  return {
    create,
    revoke,
    async list(projectId) {
      return (await rows.keys(projectId ?? null)).map(keyOf);
    },
    async findByHash(hash) {
      const row = await rows.keyByHash(hash);
      return row === null ? undefined : keyOf(row);
    },
    activeHashes: (among) => rows.activeKeyHashes(among),
    touch: uses.note,
    changed,
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    close: uses.close,
  };
}

export function keyOf(row: KeyRow): ApiKey {
  const { id, name, prefix, createdAt, lastUsedAt, revokedAt } = row;
  return {
    id,
    projectId: row.project,
    organizationId: row.organization,
    name,
    prefix,
    permissions: permissionList(row.permissions),
    createdAt,
    lastUsedAt,
    revokedAt,
  };
}

function checkPermissions(permissions: readonly Permission[]): void {
  if (permissions.length > 0 && permissions.every((permission) => ALL.includes(permission))) return;
  throw new StoreError('invalid_permissions', `a key needs at least one of ${ALL.join(', ')}`);
}
