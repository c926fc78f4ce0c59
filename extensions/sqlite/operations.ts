/** What the store asks of its database thread, beside the queue's operations. */
import type { DatabaseSync } from 'node:sqlite';
import { permissionList } from '../../src/model/permissions.ts';
import { addColumn } from '../../src/sqlite/columns.ts';
import type { Access, OperationOptions, Operations } from '../../src/sqlite/operation.ts';
import type { PlanName } from '../../src/tenancy/contract.ts';
import type {
  AllowedProjects,
  ByRow,
  KeyRow,
  NewKey,
  OrganizationRow,
  ProjectRow,
  ProjectSettings,
} from '../../src/tenancy/rows.ts';
import { PROJECT_SETTINGS } from '../../src/tenancy/rows.ts';
import type { NoteChange } from './audit-writing.ts';
import { AUDIT_SCHEMA, auditWriting } from './audit-writing.ts';

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
    created_at INTEGER NOT NULL,
    retention_days INTEGER,
    events_per_month INTEGER,
    bytes_per_hour INTEGER
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

const ORGANIZATION_COLUMNS = 'id, name, plan, created_at';
const PROJECT_COLUMNS =
  'id, organization, name, created_at, retention_days, events_per_month, bytes_per_hour';
const HAS_LIMITS = '(events_per_month IS NOT NULL OR bytes_per_hour IS NOT NULL)';
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
  db.exec(AUDIT_SCHEMA);
  const { note } = auditWriting(db);
  for (const column of PROJECT_SETTINGS) addColumn(db, 'projects', column, 'INTEGER');
  db.exec(`CREATE INDEX IF NOT EXISTS projects_with_limits ON projects (id) WHERE ${HAS_LIMITS}`);
  // What is deleted must be gone from the pages too. The store deletes little while it accepts: what it
  // frees there are cells in pages that are written anyway.
  db.exec('PRAGMA secure_delete = ON');
  return {
    calls: { ...organizationCalls(db, note), ...projectCalls(db, note), ...keyCalls(db, note) },
    growing: ['store.first', 'projects.create', 'keys.create'],
  };
}

function organizationCalls(db: DatabaseSync, note: NoteChange): Operations['calls'] {
  const found = db.prepare("INSERT INTO organizations VALUES (?, ?, 'scale', ?)");
  const organization = organizationReading(db);
  const projects = projectCount(db);
  const create = projectCreation(db);
  const createKey = keyCreation(db);
  const update = db.prepare(
    'UPDATE organizations SET name = coalesce(?, name), plan = coalesce(?, plan)',
  );
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
      if (organization() !== undefined) return null;
      found.run(organizationId, name, now);
      create(projectId, organizationId, name, now);
      return createKey(keyId, projectId, name, hash, prefix, 3, now);
    },
    /** Changes nothing where the plan allows fewer projects than there are; returns how many fewer. */
    'organization.update': (
      name: string | null,
      plan: PlanName | null,
      allowed: AllowedProjects,
      by: ByRow,
    ): [OrganizationRow | undefined, tooMany: number] => {
      const limit = plan === null ? null : allowed[plan];
      const tooMany = limit === null ? 0 : Math.max(0, projects() - limit);
      if (tooMany > 0) return [organization(), tooMany];
      update.run(name, plan);
      const row = organization();
      const details = { name: name ?? undefined, plan: plan ?? undefined };
      if (row !== undefined) note(by, 'organization.update', row[0], details);
      return [row, 0];
    },
  };
}

function organizationReading(db: DatabaseSync): () => OrganizationRow | undefined {
  const find = db.prepare(`SELECT ${ORGANIZATION_COLUMNS} FROM organizations LIMIT 1`);
  find.setReturnArrays(true);
  return () => find.get() as unknown as OrganizationRow | undefined;
}

function projectCount(db: DatabaseSync): () => number {
  const count = db.prepare('SELECT count(*) AS count FROM projects');
  return () => Number(count.get()?.count);
}

function projectCreation(
  db: DatabaseSync,
): (id: string, organization: string, name: string, now: number) => ProjectRow {
  const create = db.prepare(
    `INSERT INTO projects (id, organization, name, created_at) VALUES (?, ?, ?, ?)
     RETURNING ${PROJECT_COLUMNS}`,
  );
  create.setReturnArrays(true);
  return (...values) => create.get(...values) as unknown as ProjectRow;
}

function projectCalls(db: DatabaseSync, note: NoteChange): Operations['calls'] {
  const organization = organizationReading(db);
  const count = projectCount(db);
  const create = projectCreation(db);
  const rename = db.prepare('UPDATE projects SET name = ? WHERE id = ?');
  const set = PROJECT_SETTINGS.map(
    (name) => [name, db.prepare(`UPDATE projects SET ${name} = ? WHERE id = ?`)] as const,
  );
  const find = db.prepare(`SELECT ${PROJECT_COLUMNS} FROM projects WHERE id = ?`);
  find.setReturnArrays(true);
  const remove = db.prepare('DELETE FROM projects WHERE id = ?');
  const mark = db.prepare('INSERT OR IGNORE INTO deleted_projects VALUES (?, ?, 0)');
  return {
    /** Null where the plan allows no more. */
    'projects.create': (
      id: string,
      name: string,
      now: number,
      allowed: AllowedProjects,
      by: ByRow,
    ): ProjectRow | null => {
      const row = organization();
      if (row === undefined) throw new Error('the store has no organization');
      const limit = allowed[row[2]];
      if (limit !== null && count() >= limit) return null;
      note(by, 'project.create', id, { name });
      return create(id, row[0], name, now);
    },
    'projects.update': (
      id: string,
      name: string | null,
      settings: ProjectSettings,
      by: ByRow,
    ): unknown => {
      if (name !== null) rename.run(name, id);
      for (const [column, statement] of set) {
        const value = settings[column];
        if (value !== undefined) statement.run(value, id);
      }
      const row = find.get(id);
      const details = { name: name ?? undefined, ...settings };
      if (row !== undefined) note(by, 'project.update', id, details);
      return row ?? null;
    },
    /** Its keys hang on it, so they are found no more; all it holds is taken away afterwards. */
    'projects.delete': (id: string, now: number, by: ByRow): 'deleted' | 'unknown' | 'last' => {
      const row = find.get(id) as unknown as ProjectRow | undefined;
      if (row === undefined) return 'unknown';
      if (count() <= 1) return 'last';
      remove.run(id);
      mark.run(id, now);
      note(by, 'project.delete', id, { name: row[2] });
      return 'deleted';
    },
  };
}

type KeyCreation = (...values: NewKey) => KeyRow | null;

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

function keyCalls(db: DatabaseSync, note: NoteChange): Operations['calls'] {
  const read = keyById(db);
  const create = keyCreation(db);
  const revoke = db.prepare(
    'UPDATE api_keys SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL',
  );
  const touch = db.prepare(
    'UPDATE api_keys SET last_used_at = max(coalesce(last_used_at, 0), ?) WHERE id = ?',
  );
  return {
    'keys.create': (values: NewKey, by: ByRow): KeyRow | null => {
      const row = create(...values);
      if (row === null) return null;
      const [id, project_id, , name, , bits] = row;
      const permissions = permissionList(bits).join(',');
      note(by, 'key.create', id, { project_id, name, permissions });
      return row;
    },
    'keys.revoke': (id: string, now: number, by: ByRow): KeyRow | null => {
      const isChanged = Number(revoke.run(now, id).changes) > 0;
      const row = read(id);
      if (row === null || !isChanged) return row;
      const [, project_id, , name] = row;
      note(by, 'key.revoke', id, { project_id, name });
      return row;
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
  const limited = db.prepare(`SELECT ${PROJECT_COLUMNS} FROM projects WHERE ${HAS_LIMITS}`);
  limited.setReturnArrays(true);
  const list = db.prepare(
    `${KEYS} WHERE ?1 IS NULL OR k.project = ?1 ORDER BY k.created_at DESC, k.rowid DESC`,
  );
  list.setReturnArrays(true);
  const byHash = db.prepare(`${KEYS} WHERE k.hash = ?`);
  byHash.setReturnArrays(true);
  const organization = organizationReading(db);
  const retained = db.prepare('SELECT count(*) FROM traces WHERE project = ? AND updated_at >= ?');
  retained.setReturnArrays(true);
  return {
    'organization.get': () => organization(),
    'projects.list': () => projects.all(),
    /** Those with limits of their own. */
    'projects.limited': () => limited.all(),
    'projects.retained': (windows: readonly [project: string, since: number][]): number[] =>
      windows.map(([project, since]) => {
        const [count] = retained.get(project, since) as unknown as [number];
        return count;
      }),
    'projects.get': (id: string) => project.get(id) ?? null,
    'keys.list': (projectId: string | null) => list.all(projectId),
    'keys.findByHash': (hash: Uint8Array) => byHash.get(hash) ?? null,
  };
}
