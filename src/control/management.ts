import type { Clock } from '../component/component.ts';
import type { ApiKey, Project, Store } from '../store/store.ts';
import type { AuditEntry, KeyRequest, Organization, PlanName } from '../store/tenancy.ts';

/** Who changes something. */
export type Actor = {
  /** `admin-token`, `cli`. */
  readonly name: string;
  readonly address: string | null;
};

export type ProjectChange = {
  readonly name?: string;
  /** Null: as long as the plan says. */
  readonly retentionDays?: number | null;
};

export type OrganizationChange = { readonly name?: string; readonly plan?: PlanName };

/** Every change that management makes, over HTTP and by commands alike: each leaves an audit entry. */
export type Management = {
  updateOrganization(change: OrganizationChange): Promise<Organization>;
  createProject(name: string): Promise<Project>;
  updateProject(id: string, change: ProjectChange): Promise<Project>;
  deleteProject(id: string): Promise<void>;
  createKey(request: KeyRequest): Promise<{ key: ApiKey; token: string }>;
  revokeKey(id: string): Promise<ApiKey>;
};

export type ManagementOptions = {
  readonly store: Store;
  readonly actor: Actor;
  readonly clock: Clock;
  /**
   * Told when a change was made that could not be written down. The change stands, and its answer must
   * reach whoever asked: a new key's token is in it.
   */
  readonly onUnrecorded: (error: unknown, entry: AuditEntry) => void;
};

export function management(options: ManagementOptions): Management {
  const { store } = options;
  const record = (action: string, subject: string, details: AuditEntry['details'] = {}) =>
    recordChange(options, action, subject, details);
  return {
    async updateOrganization(change) {
      const organization = await store.organization.update(change);
      await record('organization.update', organization.id, change);
      return organization;
    },
    async createProject(name) {
      const project = await store.projects.create(name);
      await record('project.create', project.id, { name });
      return project;
    },
    async updateProject(id, change) {
      const project = await store.projects.update(id, change);
      const { name, retentionDays } = change;
      await record('project.update', id, {
        ...(name === undefined ? {} : { name }),
        ...(retentionDays === undefined ? {} : { retention_days: retentionDays }),
      });
      return project;
    },
    async deleteProject(id) {
      const project = await store.projects.get(id);
      await store.projects.delete(id);
      await record('project.delete', id, project === undefined ? {} : { name: project.name });
    },
    async createKey(request) {
      const made = await store.keys.create(request);
      const { id, projectId, name, permissions } = made.key;
      await record('key.create', id, {
        project_id: projectId,
        name,
        permissions: permissions.join(','),
      });
      return made;
    },
    async revokeKey(id) {
      const key = await store.keys.revoke(id);
      await record('key.revoke', id, { project_id: key.projectId, name: key.name });
      return key;
    },
  };
}

async function recordChange(
  { store, actor, clock, onUnrecorded }: ManagementOptions,
  action: string,
  subject: string,
  details: AuditEntry['details'],
): Promise<void> {
  const { name, address } = actor;
  const entry: AuditEntry = { at: clock.now(), actor: name, address, action, subject, details };
  try {
    await store.audit.record(entry);
  } catch (error) {
    onUnrecorded(error, entry);
  }
}
