import { permissionList } from '../../../src/model/permissions.ts';
import type { PlanName } from '../../../src/tenancy/contract.ts';
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
import type { PostgresClient, Row } from '../connection/statement.ts';
import { fromText, toText } from '../connection/text.ts';
import type { Notify } from '../notices.ts';
import { insertAudit, logRows } from './log-rows.ts';

const PROJECTS = `
  SELECT id, organization, name, created_at, retention_days, events_per_month, bytes_per_hour
  FROM projects`;
const KEYS = `
  SELECT k.id, k.project, p.organization, k.name, k.prefix, k.permissions, k.created_at,
    k.last_used_at, k.revoked_at
  FROM api_keys k JOIN projects p ON p.id = k.project`;

/** Each change is one transaction, its audit entry and the notice for other processes with it. */
export function postgresRows(postgres: Postgres, notify: Notify): TenancyRows {
  return {
    ...organizationRows(postgres, notify),
    ...projectRows(postgres, notify),
    ...keyRows(postgres, notify),
    ...logRows(postgres),
  };
}

type OrganizationRows = Pick<TenancyRows, 'first' | 'organization' | 'updateOrganization'>;

function organizationRows(postgres: Postgres, notify: Notify): OrganizationRows {
  return {
    first: ({ organizationId, projectId, name, keyId, hash, prefix, now }) =>
      postgres.transaction(async (client) => {
        const { rows } = await client.query(
          `INSERT INTO organizations (id, name, plan, created_at) VALUES ($1, $2, 'scale', $3)
           ON CONFLICT DO NOTHING RETURNING id`,
          [organizationId, toText(name), now],
        );
        if (rows.length === 0) return null;
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
        await client.query(
          'UPDATE organizations SET name = coalesce($1, name), plan = coalesce($2, plan)',
          [name === null ? null : toText(name), plan],
        );
        const organization = await organizationIn(client);
        const details = { name: name ?? undefined, plan: plan ?? undefined };
        await note(client, by, 'organization.update', organization.id, details);
        await notify(client, 'organization', organization.id);
        return { organization, tooMany: 0 };
      }),
  };
}

async function organizationIn(client: PostgresClient, lock = ''): Promise<OrganizationRow> {
  const { rows } = await client.query(
    `SELECT id, name, plan, created_at FROM organizations ${lock}`,
  );
  const [row] = rows;
  if (row === undefined) throw new Error('the store has no organization');
  const { id, name, plan, created_at } = row;
  return {
    id: String(id),
    name: fromText(String(name)),
    plan: plan as PlanName,
    createdAt: Number(created_at),
  };
}

/** Whoever adds or removes projects, or changes the plan, waits here for the others. */
function lockOrganization(client: PostgresClient): Promise<OrganizationRow> {
  return organizationIn(client, 'FOR NO KEY UPDATE');
}

async function countProjects(client: PostgresClient): Promise<number> {
  const { rows } = await client.query('SELECT count(*) AS count FROM projects');
  return Number(rows[0]?.count);
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

function projectRows(postgres: Postgres, notify: Notify): ProjectRows {
  return {
    createProject: (...values) => createProject(postgres, ...values),
    updateProject: (id, name, settings, by) =>
      postgres.transaction(async (client) => {
        const row = await updateProject(client, id, name, settings);
        if (row === null) return null;
        const details = { name: name ?? undefined, ...settings };
        await note(client, by, 'project.update', id, details);
        await notify(client, 'project', id);
        return row;
      }),
    deleteProject: (id, now, by) =>
      postgres.transaction(async (client) => {
        await lockOrganization(client);
        const row = await projectIn(client, id);
        if (row === null) return 'unknown';
        if ((await countProjects(client)) <= 1) return 'last';
        await holdOffAccepting(client);
        await client.query('DELETE FROM projects WHERE id = $1', [id]);
        await client.query('INSERT INTO deleted_projects VALUES ($1, $2)', [id, now]);
        await note(client, by, 'project.delete', id, { name: row.name });
        await notify(client, 'project', id);
        return 'deleted';
      }),
    project: (id) => projectIn(postgres, id),
    async projects() {
      const { rows } = await postgres.query(`${PROJECTS} ORDER BY created_at, n`);
      return rows.map(projectOf);
    },
    async limitedProjects() {
      const { rows } = await postgres.query(
        `${PROJECTS} WHERE events_per_month IS NOT NULL OR bytes_per_hour IS NOT NULL`,
      );
      return rows.map(projectOf);
    },
    async retainedTraces(windows) {
      const { rows } = await postgres.query(
        `SELECT (SELECT count(*) FROM traces t WHERE t.project = w.project AND t.updated_at >= w.since
           AND t.updated_hour >= (greatest(w.since, 0) / 3600000)::integer) AS count
         FROM unnest($1::text[], $2::bigint[]) WITH ORDINALITY AS w (project, since, place)
         ORDER BY place`,
        [windows.map(({ project }) => project), windows.map(({ since }) => since)],
      );
      return rows.map(({ count }) => Number(count));
    },
    async openRemovals() {
      const { rows } = await postgres.query(
        'SELECT project FROM deleted_projects WHERE NOT is_purged',
      );
      return rows.map(({ project }) => String(project));
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
    [id, organization, toText(name), now],
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
  const values: (string | number | null)[] = [id, name === null ? null : toText(name)];
  const changes = ['name = coalesce($2, name)'];
  for (const column of PROJECT_SETTINGS) {
    const value = settings[column];
    if (value !== undefined) changes.push(`${column} = $${values.push(value)}`);
  }
  await client.query(`UPDATE projects SET ${changes.join(', ')} WHERE id = $1`, values);
  return projectIn(client, id);
}

async function projectIn(client: PostgresClient, id: string): Promise<ProjectRow | null> {
  const { rows } = await client.query(`${PROJECTS} WHERE id = $1`, [toText(id)]);
  return rows[0] === undefined ? null : projectOf(rows[0]);
}

function projectOf(row: Row): ProjectRow {
  return {
    id: String(row.id),
    organization: String(row.organization),
    name: fromText(String(row.name)),
    createdAt: Number(row.created_at),
    retentionDays: numberOf(row.retention_days),
    eventsPerMonth: numberOf(row.events_per_month),
    bytesPerHour: numberOf(row.bytes_per_hour),
  };
}

function numberOf(cell: unknown): number | null {
  return cell === null ? null : Number(cell);
}

type KeyRows = Pick<TenancyRows, 'createKey' | 'revokeKey' | 'touchKeys' | 'keys' | 'keyByHash'>;

function keyRows(postgres: Postgres, notify: Notify): KeyRows {
  return {
    createKey: (added, by) =>
      postgres.transaction(async (client) => {
        const row = await insertKey(client, added);
        if (row === null) return null;
        const { id, project: project_id, name } = row;
        const permissions = permissionList(row.permissions).join(',');
        await note(client, by, 'key.create', id, { project_id, name, permissions });
        await notify(client, 'key', id);
        return row;
      }),
    revokeKey: (id, now, by) =>
      postgres.transaction(async (client) => {
        const { rows } = await client.query(
          'UPDATE api_keys SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL RETURNING id',
          [toText(id), now],
        );
        const row = await keyIn(client, 'k.id', toText(id));
        if (row === null || rows.length === 0) return row;
        const { project: project_id, name } = row;
        await note(client, by, 'key.revoke', id, { project_id, name });
        await notify(client, 'key', id);
        return row;
      }),
    async touchKeys(uses) {
      await postgres.query(
        `UPDATE api_keys k SET last_used_at = greatest(k.last_used_at, u.used_at)
         FROM unnest($1::text[], $2::bigint[]) AS u (id, used_at) WHERE k.id = u.id`,
        [uses.map(({ id }) => id), uses.map(({ usedAt }) => usedAt)],
      );
    },
    async keys(projectId) {
      const { rows } = await postgres.query(
        `${KEYS} WHERE $1::text IS NULL OR k.project = $1 ORDER BY k.created_at DESC, k.n DESC`,
        [projectId === null ? null : toText(projectId)],
      );
      return rows.map(keyOf);
    },
    keyByHash: (hash) => keyIn(postgres, 'k.hash', hash),
  };
}

/** Null where there is no such project. */
async function insertKey(client: PostgresClient, added: NewKey): Promise<KeyRow | null> {
  const { id, project, name, hash, prefix, permissions, createdAt } = added;
  const { rows } = await client.query(
    `INSERT INTO api_keys (id, project, name, hash, prefix, permissions, created_at)
     SELECT $1, p.id, $3, $4, $5, $6, $7 FROM projects p WHERE p.id = $2 FOR KEY SHARE
     RETURNING id`,
    [id, toText(project), toText(name), hash, prefix, permissions, createdAt],
  );
  return rows.length === 0 ? null : keyIn(client, 'k.id', id);
}

async function keyIn(
  client: PostgresClient,
  column: 'k.id' | 'k.hash',
  value: string | Uint8Array,
): Promise<KeyRow | null> {
  const { rows } = await client.query(`${KEYS} WHERE ${column} = $1`, [value]);
  return rows[0] === undefined ? null : keyOf(rows[0]);
}

function keyOf(row: Row): KeyRow {
  return {
    id: String(row.id),
    project: String(row.project),
    organization: String(row.organization),
    name: fromText(String(row.name)),
    prefix: String(row.prefix),
    permissions: Number(row.permissions),
    createdAt: Number(row.created_at),
    lastUsedAt: numberOf(row.last_used_at),
    revokedAt: numberOf(row.revoked_at),
  };
}

/** Notes a change that was made. Details that are undefined are left out. */
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
