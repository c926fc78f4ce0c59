import type { Clock } from '../../src/component/component.ts';
import type { Database } from '../../src/sqlite/database.ts';
import { StoreError } from '../../src/store/store.ts';
import type { ChangedBy, Organization, OrganizationStore } from '../../src/store/tenancy.ts';
import { PLAN_NAMES } from '../../src/store/tenancy.ts';
import { byRow } from './audit.ts';
import type { OrganizationRow } from './operations.ts';
import type { PlansConfig } from './plans.ts';
import { allowedProjects, isPlan, limitsByPlan, limitsOn } from './plans.ts';
import { checkName } from './projects.ts';
import type { Retention } from './retention.ts';

export function sqliteOrganization(
  database: Database,
  clock: Clock,
  config: PlansConfig,
  retention: Retention,
): OrganizationStore {
  const listeners = new Set<(organization: Organization) => void>();

  async function update(
    change: { name?: string; plan?: string },
    by?: ChangedBy,
  ): Promise<Organization> {
    const { name, plan } = change;
    if (name !== undefined) checkName(name);
    if (plan !== undefined && !isPlan(plan)) {
      throw new StoreError('unknown_plan', `a plan is one of ${PLAN_NAMES.join(', ')}`);
    }
    const args = [name ?? null, plan ?? null, allowedProjects(config), byRow(by, clock)];
    const [row, tooMany] = (await database.write('organization.update', args)) as [
      OrganizationRow,
      tooMany: number,
    ];
    if (tooMany > 0) {
      const projects = tooMany === 1 ? 'project' : 'projects';
      throw new StoreError('plan_limit', `delete ${tooMany} ${projects} before going to ${plan}`);
    }
    const organization = organizationOf(row, config);
    retention.onPlan(organization.limits);
    for (const listener of listeners) listener(organization);
    return organization;
  }

  return {
    update,
    async get() {
      const row = (await database.read('organization.get', [])) as OrganizationRow;
      return organizationOf(row, config);
    },
    async plans() {
      return limitsByPlan(config);
    },
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

export function organizationOf(row: OrganizationRow, config: PlansConfig): Organization {
  const [id, name, plan, createdAt] = row;
  return { id, name, plan, limits: limitsOn(plan, config), createdAt };
}
