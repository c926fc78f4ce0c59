/** What the store asks of its database thread, beside the queue's operations. */
import type { DatabaseSync } from 'node:sqlite';
import type { Access, OperationOptions, Operations } from '../../src/sqlite/operation.ts';

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS organizations (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    plan TEXT NOT NULL,
    created_at INTEGER NOT NULL
  ) STRICT;
  CREATE TABLE IF NOT EXISTS projects (
    id TEXT PRIMARY KEY,
    organization TEXT NOT NULL,
    name TEXT NOT NULL,
    created_at INTEGER NOT NULL
  ) STRICT;
  CREATE TABLE IF NOT EXISTS api_keys (
    id TEXT PRIMARY KEY,
    project TEXT NOT NULL,
    name TEXT NOT NULL,
    hash BLOB NOT NULL UNIQUE,
    prefix TEXT NOT NULL,
    permissions INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    last_used_at INTEGER,
    revoked_at INTEGER
  ) STRICT;
  CREATE INDEX IF NOT EXISTS api_keys_by_project ON api_keys (project);
`;

export type ProjectRow = readonly [
  id: string,
  organization: string,
  name: string,
  createdAt: number,
];
export type KeyRow = readonly [
  id: string,
  project: string,
  organization: string,
  name: string,
  prefix: string,
  permissions: number,
  createdAt: number,
  lastUsedAt: number | null,
  revokedAt: number | null,
];

const PROJECT_COLUMNS = 'id, organization, name, created_at';
const KEYS = `
  SELECT k.id, k.project, p.organization, k.name, k.prefix, k.permissions, k.created_at,
    k.last_used_at, k.revoked_at
  FROM api_keys k JOIN projects p ON p.id = k.project`;

export function operations(
  db: DatabaseSync,
  access: Access,
  _options: OperationOptions,
): Operations {
  if (access === 'read') return { calls: readingCalls(db) };
  db.exec(SCHEMA);
  return {
    calls: { ...projectCalls(db), ...keyCalls(db) },
    growing: ['store.first', 'projects.create', 'keys.create'],
  };
}

function projectCalls(db: DatabaseSync): Operations['calls'] {
  const organization = db.prepare('SELECT id FROM organizations LIMIT 1');
  organization.setReturnArrays(true);
  const found = db.prepare("INSERT INTO organizations VALUES (?, ?, 'scale', ?)");
  const create = db.prepare(
    `INSERT INTO projects VALUES (?, ?, ?, ?) RETURNING ${PROJECT_COLUMNS}`,
  );
  create.setReturnArrays(true);
  const createKey = keyCreation(db);
  return {
    /** Makes the organization, project and key that a new store starts with; null when it is not new. */
    'store.first': (
      organizationId: string,
      projectId: string,
      name: string,
      keyId: string,
      hash: Uint8Array,
      prefix: string,
      now: number,
    ): KeyRow | null => {
      if (organization.get() !== undefined) return null;
      found.run(organizationId, name, now);
      create.get(projectId, organizationId, name, now);
      return createKey(keyId, projectId, name, hash, prefix, 3, now);
    },
    'projects.create': (id: string, name: string, now: number) => {
      const [organizationId] = organization.get() as unknown as [string];
      return create.get(id, organizationId, name, now);
    },
  };
}

type KeyCreation = (
  id: string,
  project: string,
  name: string,
  hash: Uint8Array,
  prefix: string,
  permissions: number,
  now: number,
) => KeyRow | null;

/** Returns a function that makes a key, or gives null where there is no such project. */
function keyCreation(db: DatabaseSync): KeyCreation {
  const project = db.prepare('SELECT 1 FROM projects WHERE id = ?');
  const create = db.prepare(
    `INSERT INTO api_keys (id, project, name, hash, prefix, permissions, created_at)
     VALUES (?, ?, ?, ?, ?, ?, ?)`,
  );
  const read = keyById(db);
  return (id, projectId, ...rest) => {
    if (project.get(projectId) === undefined) return null;
    create.run(id, projectId, ...rest);
    return read(id);
  };
}

function keyCalls(db: DatabaseSync): Operations['calls'] {
  const read = keyById(db);
  const revoke = db.prepare(
    'UPDATE api_keys SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL',
  );
  const touch = db.prepare(
    'UPDATE api_keys SET last_used_at = max(coalesce(last_used_at, 0), ?) WHERE id = ?',
  );
  return {
    'keys.create': keyCreation(db),
    'keys.revoke': (id: string, now: number): KeyRow | null => {
      revoke.run(now, id);
      return read(id);
    },
    'keys.touch': (rows: readonly [id: string, usedAt: number][]): void => {
      for (const [id, usedAt] of rows) touch.run(usedAt, id);
    },
  };
}

function keyById(db: DatabaseSync): (id: string) => KeyRow | null {
  const find = db.prepare(`${KEYS} WHERE k.id = ?`);
  find.setReturnArrays(true);
  return (id) => (find.get(id) as unknown as KeyRow | undefined) ?? null;
}

function readingCalls(db: DatabaseSync): Operations['calls'] {
  const projects = db.prepare(`SELECT ${PROJECT_COLUMNS} FROM projects ORDER BY created_at, rowid`);
  projects.setReturnArrays(true);
  const project = db.prepare(`SELECT ${PROJECT_COLUMNS} FROM projects WHERE id = ?`);
  project.setReturnArrays(true);
  const list = db.prepare(
    `${KEYS} WHERE ?1 IS NULL OR k.project = ?1 ORDER BY k.created_at DESC, k.rowid DESC`,
  );
  list.setReturnArrays(true);
  const byHash = db.prepare(`${KEYS} WHERE k.hash = ?`);
  byHash.setReturnArrays(true);
  return {
    'projects.list': () => projects.all(),
    'projects.get': (id: string) => project.get(id) ?? null,
    'keys.list': (projectId: string | null) => list.all(projectId),
    'keys.findByHash': (hash: Uint8Array) => byHash.get(hash) ?? null,
  };
}
