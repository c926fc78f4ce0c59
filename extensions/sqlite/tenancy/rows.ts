import type { Database } from '../../../src/sqlite/database.ts';
import type { TenancyRows } from '../../../src/tenancy/rows.ts';
import type { StoreOperations } from '../operations.ts';

/** Changes run in the writing thread, point reads in the reader, listings and sums in the searcher. */
export function sqliteRows({ write, read, search }: Database<StoreOperations>): TenancyRows {
  return {
    first: (...args) => write('store.first', args),
    organization: () => read('organization.get', []),
    updateOrganization: (...args) => write('organization.update', args),
    createProject: (...args) => write('projects.create', args),
    updateProject: (...args) => write('projects.update', args),
    deleteProject: (...args) => write('projects.delete', args),
    project: (...args) => read('projects.get', args),
    projects: () => read('projects.list', []),
    limitedProjects: () => read('projects.limited', []),
    retainedTraces: (...args) => search('projects.retained', args),
    openRemovals: () => read('removal.open', []),
    createKey: (...args) => write('keys.create', args),
    revokeKey: (...args) => write('keys.revoke', args),
    touchKeys: (...args) => write('keys.touch', args, { lazy: true }),
    keys: (...args) => read('keys.list', args),
    keyByHash: (...args) => read('keys.findByHash', args),
    activeKeyHashes: () => search('keys.activeHashes', []),
    recordRejections: (projects, counts, most, isLast) =>
      write('rejections.record', [projects, counts, most], { lazy: !isLast }),
    rejections: (...args) => search('rejections.list', args),
    recordAudit: (...args) => write('audit.record', args),
    audit: (...args) => search('audit.list', args),
    usedAndRejected: (...args) => search('usage.history', args),
    ledgerChecks: () => search('usage.check', []),
  };
}
