import type { Settings } from '../../src/component/component.ts';
import type { Store } from '../../src/store/store.ts';
import type { Organization, ProjectLimits, QuotaLimits } from '../../src/tenancy/contract.ts';
import type { QuotasConfig } from './config.ts';

/** What may be sent: the plan's limits as the store has them, or those of the configuration. */
export type Allowance = {
  readonly organizationId: string;
  /** Of the organization alone, or with what the project is limited to besides. */
  limits(projectId?: string): QuotaLimits;
  close(): void;
};

/** A plan changed by another process counts within this time, also unheard of; one changed here at once. */
const REFRESH_MS = 5_000;

/** The organization of fixed keys, and of receivers with a project of their own. */
const LOCAL_ORGANIZATION = 'org_local';

const NONE: ProjectLimits = { eventsPerMonth: null, bytesPerHour: null };

type Overrides = Pick<QuotasConfig, 'monthly_events' | 'hourly_bytes'>;

/** Without a store there is no plan: what the configuration leaves out is unlimited. */
export function fixedAllowance(overrides: Overrides): Allowance {
  const limits: QuotaLimits = {
    eventsPerMonth: overrides.monthly_events ?? null,
    bytesPerHour: overrides.hourly_bytes ?? null,
  };
  return { organizationId: LOCAL_ORGANIZATION, limits: () => limits, close() {} };
}

/** Rejects when the store cannot be asked. Later it keeps what it knows when that happens. */
export async function planAllowance(
  { organization, projects }: Pick<Store, 'organization' | 'projects'>,
  overrides: Overrides,
  { clock, logger }: Pick<Settings, 'clock' | 'logger'>,
): Promise<Allowance> {
  const { id: organizationId, ...found } = await organization.get();
  let limits = limitsOf(found, overrides);
  /** Projects with limits of their own, with their organization's. */
  let byProject = new Map<string, QuotaLimits>();
  let changes = 0;
  let isAway = false;
  let isClosed = false;
  let cancel = (): void => {};

  async function refresh(): Promise<void> {
    const before = changes;
    try {
      const answers = await Promise.all([organization.get(), projects.ownLimits()]);
      // What was changed meanwhile is newer than the answer.
      if (changes === before) set(limitsOf(answers[0], overrides), answers[1]);
      isAway = false;
    } catch (error) {
      if (!isAway) logger.warn({ error }, 'the plan cannot be read: the limits known before hold');
      isAway = true;
    }
    if (!isClosed) cancel = clock.after(REFRESH_MS, () => void refresh());
  }

  function set(ofOrganization: QuotaLimits, own: ReadonlyMap<string, ProjectLimits>): void {
    limits = ofOrganization;
    byProject = new Map([...own].map(([id, project]) => [id, { ...limits, project }]));
  }

  function own(): Map<string, ProjectLimits> {
    return new Map([...byProject].map(([id, { project = NONE }]) => [id, project]));
  }

  const stops = [
    organization.onChange((changed) => {
      changes++;
      set(limitsOf(changed, overrides), own());
    }),
    projects.onLimits((id, project) => {
      changes++;
      byProject.set(id, { ...limits, project });
    }),
    projects.onDelete((id) => {
      changes++;
      byProject.delete(id);
    }),
  ];
  // A change between the answer and the listening would otherwise be missed.
  await refresh();
  return {
    organizationId,
    limits: (projectId) => (projectId !== undefined && byProject.get(projectId)) || limits,
    close() {
      isClosed = true;
      cancel();
      for (const stop of stops) stop();
    },
  };
}

function limitsOf({ limits }: Pick<Organization, 'limits'>, overrides: Overrides): QuotaLimits {
  const { eventsPerMonth, bytesPerHour } = limits;
  const { monthly_events: events = eventsPerMonth, hourly_bytes: bytes = bytesPerHour } = overrides;
  return { eventsPerMonth: events, bytesPerHour: bytes };
}
