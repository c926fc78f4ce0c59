import type { Settings } from '../../src/component/component.ts';
import type { Store } from '../../src/store/store.ts';
import type { Organization, ProjectLimits, QuotaLimits } from '../../src/tenancy/contract.ts';
import type { QuotasConfig } from './config.ts';

/** The limits in force: those of the plan in the store, replaced by those that the configuration sets. */
export type Allowance = {
  readonly organizationId: string;
  /** The limits of the organization, with those of the project if the project has limits of its own. */
  limits(projectId?: string): QuotaLimits;
  close(): void;
};

/**
 * A plan that another process changes takes effect within this time, even if its notice is lost; a change by this
 * process takes effect at once.
 */
const REFRESH_MS = 5_000;

/** The organization of fixed keys and of receivers with a `project`. */
const LOCAL_ORGANIZATION = 'org_local';

const NONE: ProjectLimits = { eventsPerMonth: null, bytesPerHour: null };

type Overrides = Pick<QuotasConfig, 'monthly_events' | 'hourly_bytes'>;

/** The limits without a store, and so without a plan. A limit that the configuration does not set is unlimited. */
export function fixedAllowance(overrides: Overrides): Allowance {
  const limits: QuotaLimits = {
    eventsPerMonth: overrides.monthly_events ?? null,
    bytesPerHour: overrides.hourly_bytes ?? null,
  };
  return { organizationId: LOCAL_ORGANIZATION, limits: () => limits, close() {} };
}

/** Rejects if the store cannot be reached. After the start, the last known limits hold while it is away. */
export async function planAllowance(
  { organization, projects }: Pick<Store, 'organization' | 'projects'>,
  overrides: Overrides,
  { clock, logger }: Pick<Settings, 'clock' | 'logger'>,
): Promise<Allowance> {
  const { id: organizationId, ...found } = await organization.get();
  let limits = limitsOf(found, overrides);
  /** The limits of projects that have their own, combined with those of the organization. */
  let byProject = new Map<string, QuotaLimits>();
  let changes = 0;
  let isAway = false;
  let isClosed = false;
  let cancel = (): void => {};

  async function refresh(): Promise<void> {
    const before = changes;
    try {
      const answers = await Promise.all([organization.get(), projects.ownLimits()]);
      // A change during the reads is newer than their answers.
      if (changes === before) set(limitsOf(answers[0], overrides), answers[1]);
      isAway = false;
    } catch (error) {
      if (!isAway) logger.warn({ err: error }, 'Plan could not be read; last known limits hold');
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
  // Finds a change between the first read and the subscription.
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
