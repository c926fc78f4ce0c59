import type { Database } from '../../src/sqlite/database.ts';
import type { TenancyRows } from '../../src/tenancy/rows.ts';

/** Everything is done in the database's threads: what changes in the writing one, searches in a reading one. */
export function sqliteRows(database: Database): TenancyRows {
  const read = async <T>(name: string, ...args: unknown[]) =>
    (await database.read(name, args)) as T;
  const search = async <T>(name: string, ...args: unknown[]) =>
    (await database.search(name, args)) as T;
  const write = async <T>(name: string, ...args: unknown[]) =>
    (await database.write(name, args)) as T;
  return {
    first: (first) => write('store.first', first),
    organization: () => read('organization.get'),
    updateOrganization: (...values) => write('organization.update', ...values),
    createProject: (...values) => write('projects.create', ...values),
    updateProject: (...values) => write('projects.update', ...values),
    deleteProject: (...values) => write('projects.delete', ...values),
    project: (id) => read('projects.get', id),
    projects: () => read('projects.list'),
    limitedProjects: () => read('projects.limited'),
    retainedTraces: (windows) => search('projects.retained', windows),
    openRemovals: () => read('removal.open'),
    createKey: (...values) => write('keys.create', ...values),
    revokeKey: (...values) => write('keys.revoke', ...values),
    async touchKeys(uses) {
      await database.write('keys.touch', [uses], { lazy: true });
    },
    keys: (projectId) => read('keys.list', projectId),
    keyByHash: (hash) => read('keys.findByHash', hash),
    async recordRejections(projects, counts, most, isLast) {
      await database.write('rejections.record', [projects, counts, most], { lazy: !isLast });
    },
    rejections: (...values) => search('rejections.list', ...values),
    recordAudit: (row) => write('audit.record', row),
    audit: (...values) => search('audit.list', ...values),
    usedAndRejected: (...values) => search('usage.history', ...values),
    ledgerChecks: () => search('usage.check'),
  };
}
