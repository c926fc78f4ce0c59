/** Organization, projects and keys, in the database thread. */
import type { DatabaseSync } from 'node:sqlite';
import { permissionList } from '../../../src/model/permissions.ts';
import type { RowQuery } from '../../../src/sqlite/rows.ts';
import { cell, finds, rows } from '../../../src/sqlite/rows.ts';
import { organizationChanges, projectChanges } from '../../../src/tenancy/audit.ts';
import type { PlanName } from '../../../src/tenancy/contract.ts';
import type {
  AllowedProjects,
  ByRow,
  FirstRows,
  KeyRow,
  KeyUse,
  NewKey,
  OrganizationRow,
  ProjectDeletion,
  ProjectRow,
  ProjectSettings,
  RetentionWindow,
  UpdatedOrganization,
} from '../../../src/tenancy/rows.ts';
import { PROJECT_SETTINGS } from '../../../src/tenancy/rows.ts';
import type { NoteChange } from './audit-writing.ts';
import { auditWriting } from './audit-writing.ts';

const PROJECT_COLUMNS = `id, organization, name, created_at AS createdAt, retention_days AS retentionDays,
  events_per_month AS eventsPerMonth, bytes_per_hour AS bytesPerHour`;
/** The condition of the index `projects_with_limits`. */
const HAS_LIMITS = '(events_per_month IS NOT NULL OR bytes_per_hour IS NOT NULL)';
const KEYS = `
  SELECT k.id, k.project, p.organization, k.name, k.prefix, k.permissions,
    k.created_at AS createdAt, k.last_used_at AS lastUsedAt, k.revoked_at AS revokedAt
  FROM api_keys k JOIN projects p ON p.id = k.project`;

export function tenancyOperations(db: DatabaseSync) {
  const { note } = auditWriting(db);
  return {
    ...organizationOperations(db, note),
    ...projectOperations(db, note),
    ...keyOperations(db, note),
  };
}

function organizationOperations(db: DatabaseSync, note: NoteChange) {
  const found = db.prepare("INSERT INTO organizations VALUES (?, ?, 'scale', ?)");
  const organization = organizationReading(db);
  const projects = projectCount(db);
  const create = projectCreation(db);
  const createKey = keyCreation(db);
  const update = db.prepare(
    'UPDATE organizations SET name = coalesce(?, name), plan = coalesce(?, plan)',
  );
  return {
    /** Creates the organization, project and key of a new store; null if the store is not new. */
    'store.first': (first: FirstRows): KeyRow | null => {
      const { organizationId, projectId, name, keyId, hash, prefix, now } = first;
      if (organization() !== undefined) return null;
      found.run(organizationId, name, now);
      create(projectId, organizationId, name, now);
      const key = { id: keyId, project: projectId, name, hash, prefix, permissions: 3 };
      return createKey({ ...key, createdAt: now });
    },
    /** Changes nothing if the plan allows fewer projects than exist. */
    'organization.update': (
      name: string | null,
      plan: PlanName | null,
      allowed: AllowedProjects,
      by: ByRow,
    ): UpdatedOrganization => {
      const limit = plan === null ? null : allowed[plan];
      const tooMany = limit === null ? 0 : Math.max(0, projects() - limit);
      const before = existing(organization());
      if (tooMany > 0) return { organization: before, tooMany };
      const changes = organizationChanges(before, { name, plan });
      if (changes === undefined) return { organization: before, tooMany: 0 };
      update.run(name, plan);
      note(by, 'organization.update', before.id, changes);
      return { organization: existing(organization()), tooMany: 0 };
    },
  };
}

function organizationReading(db: DatabaseSync): () => OrganizationRow | undefined {
  const find = rows<OrganizationRow>(
    db,
    'SELECT id, name, plan, created_at AS createdAt FROM organizations LIMIT 1',
  );
  return () => find.get();
}

function existing<Row>(row: Row | undefined): Row {
  if (row === undefined) throw new Error('the store has no organization');
  return row;
}

function projectCount(db: DatabaseSync): () => number {
  const count = cell<number>(db, 'SELECT count(*) FROM projects');
  return () => count() ?? 0;
}

function projectCreation(
  db: DatabaseSync,
): (id: string, organization: string, name: string, now: number) => ProjectRow {
  const create = rows<ProjectRow>(
    db,
    `INSERT INTO projects (id, organization, name, created_at) VALUES (?, ?, ?, ?)
     RETURNING ${PROJECT_COLUMNS}`,
  );
  return (...values) => existing(create.get(...values));
}

function projectOperations(db: DatabaseSync, note: NoteChange) {
  const organization = organizationReading(db);
  const count = projectCount(db);
  const create = projectCreation(db);
  const rename = db.prepare('UPDATE projects SET name = ? WHERE id = ?');
  const set = PROJECT_SETTINGS.map(
    (name) => [name, db.prepare(`UPDATE projects SET ${name} = ? WHERE id = ?`)] as const,
  );
  const find = projectById(db);
  const remove = db.prepare('DELETE FROM projects WHERE id = ?');
  const mark = db.prepare('INSERT OR IGNORE INTO deleted_projects VALUES (?, ?, 0)');
  return {
    /** Null if the plan allows no more projects. */
    'projects.create': (
      id: string,
      name: string,
      now: number,
      allowed: AllowedProjects,
      by: ByRow,
    ): ProjectRow | null => {
      const { id: organizationId, plan } = existing(organization());
      const limit = allowed[plan];
      if (limit !== null && count() >= limit) return null;
      note(by, 'project.create', id, { name });
      return create(id, organizationId, name, now);
    },
    'projects.update': (
      id: string,
      name: string | null,
      settings: ProjectSettings,
      by: ByRow,
    ): ProjectRow | null => {
      const before = find.get(id);
      if (before === undefined) return null;
      const changes = projectChanges(before, name, settings);
      if (changes === undefined) return before;
      if (name !== null) rename.run(name, id);
      for (const [column, statement] of set) {
        const value = settings[column];
        if (value !== undefined) statement.run(value, id);
      }
      note(by, 'project.update', id, changes);
      return find.get(id) ?? null;
    },
    /** Lookups of its keys fail from now on; housekeeping removes everything else the project holds. */
    'projects.delete': (id: string, now: number, by: ByRow): ProjectDeletion => {
      const row = find.get(id);
      if (row === undefined) return 'unknown';
      if (count() <= 1) return 'last';
      remove.run(id);
      mark.run(id, now);
      note(by, 'project.delete', id, { name: row.name });
      return 'deleted';
    },
  };
}

function projectById(db: DatabaseSync): RowQuery<ProjectRow> {
  return rows<ProjectRow>(db, `SELECT ${PROJECT_COLUMNS} FROM projects WHERE id = ?`);
}

type KeyCreation = (key: NewKey) => KeyRow | null;

/** Returns a function that creates a key; null if the project does not exist. */
function keyCreation(db: DatabaseSync): KeyCreation {
  const isProject = finds(db, 'SELECT 1 FROM projects WHERE id = ?');
  const create = db.prepare(
    `INSERT INTO api_keys (id, project, name, hash, prefix, permissions, created_at)
     VALUES (?, ?, ?, ?, ?, ?, ?)`,
  );
  const read = keyById(db);
  return (key) => {
    const { id, name, hash, prefix, permissions, createdAt } = key;
    if (!isProject(key.project)) return null;
    create.run(id, key.project, name, hash, prefix, permissions, createdAt);
    return read(id);
  };
}

function keyOperations(db: DatabaseSync, note: NoteChange) {
  const read = keyById(db);
  const create = keyCreation(db);
  const revoke = db.prepare(
    'UPDATE api_keys SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL',
  );
  const touch = db.prepare(
    'UPDATE api_keys SET last_used_at = max(coalesce(last_used_at, 0), ?) WHERE id = ?',
  );
  return {
    'keys.create': (key: NewKey, by: ByRow): KeyRow | null => {
      const row = create(key);
      if (row === null) return null;
      const { id, project: project_id, name } = row;
      const permissions = permissionList(row.permissions).join(',');
      note(by, 'key.create', id, { project_id, name, permissions });
      return row;
    },
    'keys.revoke': (id: string, now: number, by: ByRow): KeyRow | null => {
      const isChanged = Number(revoke.run(now, id).changes) > 0;
      const row = read(id);
      if (row === null || !isChanged) return row;
      const { project: project_id, name } = row;
      note(by, 'key.revoke', id, { project_id, name });
      return row;
    },
    'keys.touch': (uses: readonly KeyUse[]): void => {
      for (const { id, usedAt } of uses) touch.run(usedAt, id);
    },
  };
}

function keyById(db: DatabaseSync): (id: string) => KeyRow | null {
  const find = rows<KeyRow>(db, `${KEYS} WHERE k.id = ?`);
  return (id) => find.get(id) ?? null;
}

export function tenancyReadOperations(db: DatabaseSync) {
  const selectProjects = `SELECT ${PROJECT_COLUMNS} FROM projects`;
  const projects = rows<ProjectRow>(db, `${selectProjects} ORDER BY created_at, rowid`);
  const project = projectById(db);
  const limited = rows<ProjectRow>(db, `${selectProjects} WHERE ${HAS_LIMITS}`);
  const list = rows<KeyRow>(
    db,
    `${KEYS} WHERE ?1 IS NULL OR k.project = ?1 ORDER BY k.created_at DESC, k.rowid DESC`,
  );
  const byHash = rows<KeyRow>(db, `${KEYS} WHERE k.hash = ?`);
  const active = rows<{ hash: Uint8Array }>(
    db,
    'SELECT hash FROM api_keys WHERE revoked_at IS NULL ORDER BY hash',
  );
  const isActive = finds(db, 'SELECT 1 FROM api_keys WHERE hash = ? AND revoked_at IS NULL');
  const organization = organizationReading(db);
  const retained = cell<number>(
    db,
    'SELECT count(*) FROM traces WHERE project = ? AND updated_at >= ?',
  );
  return {
    'organization.get': (): OrganizationRow => existing(organization()),
    'projects.list': (): ProjectRow[] => projects.all(),
    /** The projects that have limits of their own. */
    'projects.limited': (): ProjectRow[] => limited.all(),
    'projects.retained': (windows: readonly RetentionWindow[]): number[] =>
      windows.map(({ project, since }) => retained(project, since) ?? 0),
    'projects.get': (id: string): ProjectRow | null => project.get(id) ?? null,
    'keys.list': (projectId: string | null): KeyRow[] => list.all(projectId),
    'keys.activeHashes': (): Uint8Array => Buffer.concat(active.all().map(({ hash }) => hash)),
    'keys.activeHashesAmong': (hashes: readonly Uint8Array[]): Uint8Array => {
      const found = hashes.filter((hash) => isActive(hash));
      return Buffer.concat(found.sort(Buffer.compare));
    },
    'keys.findByHash': (hash: Uint8Array): KeyRow | null => byHash.get(hash) ?? null,
  };
}
