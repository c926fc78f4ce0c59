import { projectChange } from '../../src/control/project-change.ts';
import {
  shownAuditEntry,
  shownKey,
  shownOrganization,
  shownPlans,
  shownProject,
  shownRejection,
  shownUsage,
} from '../../src/control/public-form.ts';
import { StoreError } from '../../src/model/errors.ts';
import type { Store } from '../../src/store/store.ts';
import type { Project } from '../../src/tenancy/contract.ts';
import type { Context, Operation, OperationAnswer } from './operation.ts';
import { operation } from './operation.ts';
import { QUERIES, SCHEMAS } from './schemas.ts';
import { usageHistory } from './usage.ts';

const DEFAULT_PAGE = 100;

const showOrganization = operation({
  id: 'getOrganization',
  method: 'GET',
  path: '/api/v1/organization',
  tag: 'organization',
  summary: 'Get the organization, its plan, the limits in force and their usage',
  status: 200,
  answer: SCHEMAS.organization,
  run: (_request, { store }) => organizationAnswer(store),
});

const changeOrganization = operation({
  id: 'updateOrganization',
  method: 'PATCH',
  path: '/api/v1/organization',
  tag: 'organization',
  summary: 'Rename the organization or change its plan',
  body: SCHEMAS.organizationChange,
  status: 200,
  answer: SCHEMAS.organization,
  codes: ['invalid_name', 'unknown_plan', 'plan_limit'],
  async run({ body: { name, plan } }, { store, by }) {
    const change = {
      ...(name === undefined ? {} : { name }),
      ...(plan === undefined ? {} : { plan }),
    };
    await store.organization.update(change, by);
    return organizationAnswer(store);
  },
});

const listPlans = operation({
  id: 'listPlans',
  method: 'GET',
  path: '/api/v1/plans',
  tag: 'organization',
  summary: 'List the plans with the limits that this organization has on each',
  status: 200,
  answer: SCHEMAS.plans,
  async run(_request, { store }) {
    return { body: shownPlans(await store.organization.plans()) };
  },
});

const listProjects = operation({
  id: 'listProjects',
  method: 'GET',
  path: '/api/v1/projects',
  tag: 'projects',
  summary: 'List projects, oldest first',
  status: 200,
  answer: SCHEMAS.projects,
  async run(_request, { store }) {
    return { body: { projects: (await store.projects.list()).map(shownProject) } };
  },
});

const createProject = operation({
  id: 'createProject',
  method: 'POST',
  path: '/api/v1/projects',
  tag: 'projects',
  summary: 'Create a project',
  body: SCHEMAS.newProject,
  status: 201,
  answer: SCHEMAS.project,
  codes: ['invalid_name', 'project_limit'],
  async run({ body }, { store, by }) {
    const project = await store.projects.create(body.name, by);
    const location = `/api/v1/projects/${project.id}`;
    return { body: shownProject(project), headers: { location } };
  },
});

const showProject = operation({
  id: 'getProject',
  method: 'GET',
  path: '/api/v1/projects/:id',
  tag: 'projects',
  summary: 'Get a project',
  status: 200,
  answer: SCHEMAS.project,
  codes: ['unknown_project'],
  run: async ({ id }, { store }) => ({ body: shownProject(await projectOf(store, id)) }),
});

const changeProject = operation({
  id: 'updateProject',
  method: 'PATCH',
  path: '/api/v1/projects/:id',
  tag: 'projects',
  summary: 'Rename a project, or set its retention and limits',
  body: SCHEMAS.projectChange,
  status: 200,
  answer: SCHEMAS.project,
  codes: ['invalid_name', 'invalid_retention', 'invalid_limits', 'unknown_project'],
  async run({ id, body }, { store, by }) {
    return { body: shownProject(await store.projects.update(id, projectChange(body), by)) };
  },
});

const deleteProject = operation({
  id: 'deleteProject',
  method: 'DELETE',
  path: '/api/v1/projects/:id',
  tag: 'projects',
  summary: 'Delete a project with its keys, traces and payloads; its usage stays counted',
  status: 204,
  answer: undefined,
  codes: ['unknown_project', 'last_project'],
  async run({ id }, { store, by }) {
    await store.projects.delete(id, by);
    return {};
  },
});

const showProjectUsage = operation({
  id: 'getProjectUsage',
  method: 'GET',
  path: '/api/v1/projects/:id/usage',
  tag: 'usage',
  summary: 'Get the usage of a project in this month and hour',
  status: 200,
  answer: SCHEMAS.usageInForce,
  codes: ['unknown_project'],
  async run({ id }, { store }) {
    const { organizationId } = await projectOf(store, id);
    return { body: shownUsage(await store.counters.read(organizationId, id)) };
  },
});

const listKeys = operation({
  id: 'listKeys',
  method: 'GET',
  path: '/api/v1/projects/:id/keys',
  tag: 'keys',
  summary: 'List the keys of a project, newest first, including revoked ones',
  status: 200,
  answer: SCHEMAS.keys,
  codes: ['unknown_project'],
  async run({ id }, { store }) {
    await projectOf(store, id);
    return { body: { keys: (await store.keys.list(id)).map(shownKey) } };
  },
});

const createKey = operation({
  id: 'createKey',
  method: 'POST',
  path: '/api/v1/projects/:id/keys',
  tag: 'keys',
  summary: 'Create a key; only this answer contains its token',
  body: SCHEMAS.newKey,
  bodyIsOptional: true,
  status: 201,
  answer: SCHEMAS.createdKey,
  codes: ['invalid_name', 'invalid_permissions', 'unknown_project'],
  async run({ id, body: { name, permissions } }, { store, by }) {
    const request = {
      projectId: id,
      ...(name === undefined ? {} : { name }),
      ...(permissions === undefined ? {} : { permissions: [...new Set(permissions)] }),
    };
    const { key, token } = await store.keys.create(request, by);
    return { body: { token, ...shownKey(key) } };
  },
});

const revokeKey = operation({
  id: 'revokeKey',
  method: 'DELETE',
  path: '/api/v1/keys/:id',
  tag: 'keys',
  summary: 'Revoke a key, with immediate effect; it stays in the list',
  status: 200,
  answer: SCHEMAS.key,
  codes: ['unknown_key'],
  run: async ({ id }, { store, by }) => ({ body: shownKey(await store.keys.revoke(id, by)) }),
});

const showUsage = operation({
  id: 'getUsage',
  method: 'GET',
  path: '/api/v1/usage',
  tag: 'usage',
  summary: 'List usage by day or hour, project and key; it outlives both',
  query: QUERIES.usage,
  status: 200,
  answer: SCHEMAS.usageHistory,
  run: async ({ query }, { store, clock }) => ({ body: await usageHistory(store, clock, query) }),
});

const listRejections = operation({
  id: 'listRejections',
  method: 'GET',
  path: '/api/v1/projects/:id/rejections',
  tag: 'usage',
  summary: 'List recent rejections and refusals, newest first, without payloads',
  query: QUERIES.page,
  status: 200,
  answer: SCHEMAS.rejections,
  codes: ['unknown_project', 'invalid_cursor'],
  async run({ id, query }, { store }) {
    await projectOf(store, id);
    const { items, nextCursor } = await store.rejections.list(id, adminPage(query));
    return { body: { rejections: items.map(shownRejection), next_cursor: nextCursor } };
  },
});

const listAudit = operation({
  id: 'listAudit',
  method: 'GET',
  path: '/api/v1/audit',
  tag: 'organization',
  summary: 'List changes with their actors, newest first',
  query: QUERIES.audit,
  status: 200,
  answer: SCHEMAS.audit,
  codes: ['invalid_cursor'],
  async run({ query }, { store }) {
    const { action, actor, project, from, to } = query;
    const { items, nextCursor } = await store.audit.list({
      ...adminPage(query),
      ...{ action, actor, projectId: project, from: timeOf(from), to: timeOf(to) },
    });
    return { body: { audit: items.map(shownAuditEntry), next_cursor: nextCursor } };
  },
});

const showStatus = operation({
  id: 'getStatus',
  method: 'GET',
  path: '/api/v1/status',
  tag: 'service',
  summary: 'Get the health of the service and of each component',
  usesStore: false,
  status: 200,
  answer: SCHEMAS.status,
  run: async (_request, context) => statusAnswer(context),
});

/** Every operation except the reading requests and the OpenAPI document. */
export const OPERATIONS: readonly Operation[] = [
  showOrganization,
  changeOrganization,
  listPlans,
  listProjects,
  createProject,
  showProject,
  changeProject,
  deleteProject,
  showProjectUsage,
  listKeys,
  createKey,
  revokeKey,
  showUsage,
  listRejections,
  listAudit,
  showStatus,
];

async function organizationAnswer(store: Store): Promise<OperationAnswer> {
  const organization = await store.organization.get();
  const inForce = await store.counters.read(organization.id);
  return { body: shownOrganization(organization, inForce) };
}

export async function projectOf(store: Store, id: string): Promise<Project> {
  const project = await store.projects.get(id);
  // The message omits the id, because it is text of the client.
  if (project === undefined) throw new StoreError('unknown_project', 'the project does not exist');
  return project;
}

export function adminPage(query: { limit?: string | undefined; cursor?: string | undefined }): {
  limit: number;
  cursor?: string;
} {
  const limit = query.limit === undefined ? DEFAULT_PAGE : Number(query.limit);
  return { limit, ...(query.cursor === undefined ? {} : { cursor: query.cursor }) };
}

function timeOf(moment: string | undefined): number | undefined {
  return moment === undefined ? undefined : Date.parse(moment);
}

function statusAnswer({ health }: Context): OperationAnswer {
  const { ready, status, upSince, components } = health.report(true);
  return {
    body: {
      ready,
      status,
      up_since: new Date(upSince).toISOString(),
      components: components.map((component) => ({
        id: component.id,
        ready: component.ready ?? true,
        healthy: component.healthy ?? true,
        message: component.message ?? null,
        details: component.details ?? {},
      })),
    },
  };
}
