import type { Clock } from '../component/component.ts';
import { StoreError } from '../model/errors.ts';
import { byRow } from './audit.ts';
import type { ChangedBy, Organization, OrganizationStore } from './contract.ts';
import { PLAN_NAMES } from './contract.ts';
import type { PlansConfig } from './plans.ts';
import { allowedProjects, isPlan, limitsByPlan, limitsOn } from './plans.ts';
import { checkName } from './projects.ts';
import type { Retention } from './retention.ts';
import type { OrganizationRow, TenancyRows } from './rows.ts';

export type OrganizationOfRows = OrganizationStore & {
  /** Applies a change of another process. */
  refresh(): Promise<void>;
};

export function organizationStore(
  rows: TenancyRows,
  clock: Clock,
  config: PlansConfig,
  retention: Retention,
): OrganizationOfRows {
  const listeners = new Set<(organization: Organization) => void>();

  async function update(
    change: { name?: string; plan?: string },
    by?: ChangedBy,
  ): Promise<Organization> {
    const { name, plan } = change;
    if (name !== undefined) checkName(name);
    if (plan !== undefined && !isPlan(plan)) {
      throw new StoreError('unknown_plan', `the plan must be one of ${PLAN_NAMES.join(', ')}`);
    }
    const { organization, tooMany } = await rows.updateOrganization(
      name ?? null,
      plan ?? null,
      allowedProjects(config),
      byRow(by, clock),
    );
    if (tooMany > 0) {
      const projects = tooMany === 1 ? 'project' : 'projects';
      throw new StoreError(
        'plan_limit',
        `delete ${tooMany} ${projects} before changing to ${plan}`,
      );
    }
    return changed(organization);
  }

  function changed(row: OrganizationRow): Organization {
    const organization = organizationOf(row, config);
    retention.onPlan(organization.limits);
    for (const listener of listeners) listener(organization);
    return organization;
  }

  return {
    update,
    async get() {
      return organizationOf(await rows.organization(), config);
    },
    async refresh() {
      changed(await rows.organization());
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
  const { id, name, plan, createdAt } = row;
  return { id, name, plan, limits: limitsOn(plan, config), createdAt };
}
