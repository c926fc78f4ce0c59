import { permissionList } from '../../../src/model/permissions.ts';
import { organizationChanges, projectChanges } from '../../../src/tenancy/audit.ts';
import type {
  AllowedProjects,
  ByRow,
  KeyRow,
  NewKey,
  OrganizationRow,
  ProjectRow,
  ProjectSettings,
  TenancyRows,
} from '../../../src/tenancy/rows.ts';
import { PROJECT_SETTINGS } from '../../../src/tenancy/rows.ts';
import { holdOffAccepting } from '../batches/accept-lock.ts';
import type { Postgres } from '../connection/pool.ts';
import type { PostgresPools } from '../connection/pools.ts';
import type { PostgresClient } from '../connection/statement.ts';
import { row, rows } from '../connection/statement.ts';
import type { Notify } from '../notices.ts';
import { insertAudit, logRows } from './log-rows.ts';
import { fromStoredText, toStoredText } from './stored-text.ts';

/** Rows of type `ProjectRow`, with a stored name. */
const PROJECTS = `
  SELECT id, organization, name, created_at AS "createdAt", retention_days AS "retentionDays",
    events_per_month AS "eventsPerMonth", bytes_per_hour AS "bytesPerHour"
  FROM projects`;
/** Rows of type `KeyRow`, with a stored name. */
const KEYS = `
  SELECT k.id, k.project, p.organization, k.name, k.prefix, k.permissions,
    k.created_at AS "createdAt", k.last_used_at AS "lastUsedAt", k.revoked_at AS "revokedAt"
  FROM api_keys k JOIN projects p ON p.id = k.project`;

/** Each change is one transaction, with its audit entry and its notice to other processes. */
export function postgresRows(pools: PostgresPools, notify: Notify): TenancyRows {
  return {
    ...organizationRows(pools.accept, notify),
    ...projectRows(pools, notify),
    ...keyRows(pools.accept, notify),
    ...logRows(pools),
  };
}

type OrganizationRows = Pick<TenancyRows, 'first' | 'organization' | 'updateOrganization'>;

function organizationRows(postgres: Postgres, notify: Notify): OrganizationRows {
  return {
    first: ({ organizationId, projectId, name, keyId, hash, prefix, now }) =>
      postgres.transaction(async (client) => {
        const created = await row<{ id: string }>(
          client,
          `INSERT INTO organizations (id, name, plan, created_at) VALUES ($1, $2, 'scale', $3)
           ON CONFLICT DO NOTHING RETURNING id`,
          [organizationId, toStoredText(name), now],
        );
        if (created === undefined) return null;
        await insertProject(client, projectId, organizationId, name, now);
        const added = { id: keyId, project: projectId, name, hash, prefix, permissions: 3 };
        return insertKey(client, { ...added, createdAt: now });
      }),
    organization: () => organizationIn(postgres),
    updateOrganization: (name, plan, allowed, by) =>
      postgres.transaction(async (client) => {
        const before = await lockOrganization(client);
        const limit = plan === null ? null : allowed[plan];
        const tooMany = limit === null ? 0 : Math.max(0, (await countProjects(client)) - limit);
        if (tooMany > 0) return { organization: before, tooMany };
        const changes = organizationChanges(before, { name, plan });
        if (changes === undefined) return { organization: before, tooMany: 0 };
        await client.query(
          'UPDATE organizations SET name = coalesce($1, name), plan = coalesce($2, plan)',
          [name === null ? null : toStoredText(name), plan],
        );
        const organization = await organizationIn(client);
        await note(client, by, 'organization.update', organization.id, changes);
        await notify(client, 'organization', organization.id);
        return { organization, tooMany: 0 };
      }),
  };
}

async function organizationIn(client: PostgresClient, lock = ''): Promise<OrganizationRow> {
  const organization = await row<OrganizationRow>(
    client,
    `SELECT id, name, plan, created_at AS "createdAt" FROM organizations ${lock}`,
  );
  if (organization === undefined) throw new Error('the store has no organization');
  return withName(organization);
}

/** Serializes the changes of projects and of the plan. */
function lockOrganization(client: PostgresClient): Promise<OrganizationRow> {
  return organizationIn(client, 'FOR NO KEY UPDATE');
}

async function countProjects(client: PostgresClient): Promise<number> {
  const found = await row<{ count: number }>(client, 'SELECT count(*) AS count FROM projects');
  return found?.count ?? 0;
}

type ProjectRows = Pick<
  TenancyRows,
  | 'createProject'
  | 'updateProject'
  | 'deleteProject'
  | 'project'
  | 'projects'
  | 'limitedProjects'
  | 'retainedTraces'
  | 'openRemovals'
>;

function projectRows(
  { accept: postgres, read }: Pick<PostgresPools, 'accept' | 'read'>,
  notify: Notify,
): ProjectRows {
  return {
    createProject: (...values) => createProject(postgres, ...values),
    updateProject: (id, name, settings, by) =>
      postgres.transaction(async (client) => {
        const before = await projectIn(client, id, 'FOR NO KEY UPDATE');
        if (before === null) return null;
        const changes = projectChanges(before, name, settings);
        if (changes === undefined) return before;
        const updated = await updateProject(client, id, name, settings);
        await note(client, by, 'project.update', id, changes);
        await notify(client, 'project', id);
        return updated;
      }),
    deleteProject: (id, now, by) =>
      postgres.transaction(async (client) => {
        await lockOrganization(client);
        const project = await projectIn(client, id);
        if (project === null) return 'unknown';
        if ((await countProjects(client)) <= 1) return 'last';
        await holdOffAccepting(client);
        await client.query('DELETE FROM projects WHERE id = $1', [id]);
        await client.query('INSERT INTO deleted_projects VALUES ($1, $2)', [id, now]);
        await note(client, by, 'project.delete', id, { name: project.name });
        await notify(client, 'project', id);
        return 'deleted';
      }),
    project: (id) => projectIn(postgres, id),
    async projects() {
      const found = await rows<ProjectRow>(postgres, `${PROJECTS} ORDER BY created_at, n`);
      return found.map(withName);
    },
    async limitedProjects() {
      const limited = await rows<ProjectRow>(
        postgres,
        `${PROJECTS} WHERE events_per_month IS NOT NULL OR bytes_per_hour IS NOT NULL`,
      );
      return limited.map(withName);
    },
    async retainedTraces(windows) {
      const counts = await rows<{ count: number }>(
        read,
        `SELECT (SELECT count(*) FROM traces t WHERE t.project = w.project AND t.updated_at >= w.since
           AND t.updated_hour >= (greatest(w.since, 0) / 3600000)::integer) AS count
         FROM unnest($1::text[], $2::bigint[]) WITH ORDINALITY AS w (project, since, place)
         ORDER BY place`,
        [windows.map(({ project }) => project), windows.map(({ since }) => since)],
      );
      return counts.map(({ count }) => count);
    },
    async openRemovals() {
      const open = await rows<{ project: string }>(
        postgres,
        'SELECT project FROM deleted_projects WHERE NOT is_purged',
      );
      return open.map(({ project }) => project);
    },
  };
}

function createProject(
  postgres: Postgres,
  id: string,
  name: string,
  now: number,
  allowed: AllowedProjects,
  by: ByRow,
): Promise<ProjectRow | null> {
  return postgres.transaction(async (client) => {
    const { id: organization, plan } = await lockOrganization(client);
    const limit = allowed[plan];
    if (limit !== null && (await countProjects(client)) >= limit) return null;
    await note(client, by, 'project.create', id, { name });
    return insertProject(client, id, organization, name, now);
  });
}

async function insertProject(
  client: PostgresClient,
  id: string,
  organization: string,
  name: string,
  now: number,
): Promise<ProjectRow> {
  await client.query(
    'INSERT INTO projects (id, organization, name, created_at) VALUES ($1, $2, $3, $4)',
    [id, organization, toStoredText(name), now],
  );
  const own = { retentionDays: null, eventsPerMonth: null, bytesPerHour: null };
  return { id, organization, name, createdAt: now, ...own };
}

async function updateProject(
  client: PostgresClient,
  id: string,
  name: string | null,
  settings: ProjectSettings,
): Promise<ProjectRow | null> {
  const values: (string | number | null)[] = [id, name === null ? null : toStoredText(name)];
  const changes = ['name = coalesce($2, name)'];
  for (const column of PROJECT_SETTINGS) {
    const value = settings[column];
    if (value !== undefined) changes.push(`${column} = $${values.push(value)}`);
  }
  await client.query(`UPDATE projects SET ${changes.join(', ')} WHERE id = $1`, values);
  return projectIn(client, id);
}

async function projectIn(
  client: PostgresClient,
  id: string,
  lock = '',
): Promise<ProjectRow | null> {
  const text = `${PROJECTS} WHERE id = $1 ${lock}`;
  const found = await row<ProjectRow>(client, text, [toStoredText(id)]);
  return found === undefined ? null : withName(found);
}

function withName<Named extends { readonly name: string }>(stored: Named): Named {
  return { ...stored, name: fromStoredText(stored.name) };
}

type KeyRows = Pick<
  TenancyRows,
  'createKey' | 'revokeKey' | 'touchKeys' | 'keys' | 'keyByHash' | 'activeKeyHashes'
>;

function keyRows(postgres: Postgres, notify: Notify): KeyRows {
  return {
    createKey: (added, by) =>
      postgres.transaction(async (client) => {
        const created = await insertKey(client, added);
        if (created === null) return null;
        const { id, project: project_id, name } = created;
        const permissions = permissionList(created.permissions).join(',');
        await note(client, by, 'key.create', id, { project_id, name, permissions });
        await notify(client, 'key', id);
        return created;
      }),
    revokeKey: (id, now, by) =>
      postgres.transaction(async (client) => {
        const revoked = await row<{ id: string }>(
          client,
          'UPDATE api_keys SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL RETURNING id',
          [toStoredText(id), now],
        );
        const key = await keyIn(client, 'k.id', toStoredText(id));
        if (key === null || revoked === undefined) return key;
        const { project: project_id, name } = key;
        await note(client, by, 'key.revoke', id, { project_id, name });
        await notify(client, 'key', id);
        return key;
      }),
    async touchKeys(uses) {
      await postgres.query(
        `UPDATE api_keys k SET last_used_at = greatest(k.last_used_at, u.used_at)
         FROM unnest($1::text[], $2::bigint[]) AS u (id, used_at) WHERE k.id = u.id`,
        [uses.map(({ id }) => id), uses.map(({ usedAt }) => usedAt)],
      );
    },
    async keys(projectId) {
      const found = await rows<KeyRow>(
        postgres,
        `${KEYS} WHERE $1::text IS NULL OR k.project = $1 ORDER BY k.created_at DESC, k.n DESC`,
        [projectId === null ? null : toStoredText(projectId)],
      );
      return found.map(withName);
    },
    keyByHash: (hash) => keyIn(postgres, 'k.hash', hash),
    async activeKeyHashes(among) {
      const found = await rows<{ hash: Uint8Array }>(
        postgres,
        `SELECT hash FROM api_keys WHERE revoked_at IS NULL
         ${among === undefined ? '' : 'AND hash = ANY ($1::bytea[])'} ORDER BY hash`,
        among === undefined ? [] : [among],
      );
      return Buffer.concat(found.map(({ hash }) => hash));
    },
  };
}

/** Null if the project does not exist. */
async function insertKey(client: PostgresClient, added: NewKey): Promise<KeyRow | null> {
  const { id, project, name, hash, prefix, permissions, createdAt } = added;
  const created = await row<{ id: string }>(
    client,
    `INSERT INTO api_keys (id, project, name, hash, prefix, permissions, created_at)
     SELECT $1, p.id, $3, $4, $5, $6, $7 FROM projects p WHERE p.id = $2 FOR KEY SHARE
     RETURNING id`,
    [id, toStoredText(project), toStoredText(name), hash, prefix, permissions, createdAt],
  );
  return created === undefined ? null : keyIn(client, 'k.id', id);
}

async function keyIn(
  client: PostgresClient,
  column: 'k.id' | 'k.hash',
  value: string | Uint8Array,
): Promise<KeyRow | null> {
  const key = await row<KeyRow>(client, `${KEYS} WHERE ${column} = $1`, [value]);
  return key === undefined ? null : withName(key);
}

/** Adds an entry to the audit log. Details that are undefined are left out. */
async function note(
  client: PostgresClient,
  by: ByRow,
  action: string,
  subject: string,
  details: Readonly<Record<string, string | number | null | undefined>>,
): Promise<void> {
  if (by === null) return;
  await insertAudit(client, { ...by, action, subject, details: JSON.stringify(details) });
}
