import type { Settings } from '../../src/component/component.ts';
import type { Organization, OrganizationStore, QuotaLimits } from '../../src/store/tenancy.ts';
import type { QuotasConfig } from './config.ts';

/** What may be sent: the plan's limits as the store has them, or those of the configuration. */
export type Allowance = {
  readonly organizationId: string;
  limits(): QuotaLimits;
  close(): void;
};

/** A plan changed by another process counts within this time; one changed here counts at once. */
const REFRESH_MS = 5_000;

/** The organization of fixed keys, and of receivers with a project of their own. */
const LOCAL_ORGANIZATION = 'org_local';

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
  store: OrganizationStore,
  overrides: Overrides,
  { clock, logger }: Pick<Settings, 'clock' | 'logger'>,
): Promise<Allowance> {
  const organization = await store.get();
  let limits = limitsOf(organization, overrides);
  let changes = 0;
  let askedAt = clock.now();

  async function refresh(): Promise<void> {
    askedAt = clock.now();
    const before = changes;
    try {
      const found = await store.get();
      // What was changed meanwhile is newer than the answer.
      if (changes === before) limits = limitsOf(found, overrides);
    } catch (error) {
      logger.warn({ error }, 'the plan could not be read: the limits known before hold');
    }
  }

  const stopListening = store.onChange((changed) => {
    changes++;
    limits = limitsOf(changed, overrides);
  });
  // A change between the answer and the listening would otherwise be missed.
  await refresh();
  return {
    organizationId: organization.id,
    limits() {
      if (Math.abs(clock.now() - askedAt) >= REFRESH_MS) void refresh();
      return limits;
    },
    close: stopListening,
  };
}

function limitsOf({ limits }: Organization, overrides: Overrides): QuotaLimits {
  const { eventsPerMonth, bytesPerHour } = limits;
  const { monthly_events: events = eventsPerMonth, hourly_bytes: bytes = bytesPerHour } = overrides;
  return { eventsPerMonth: events, bytesPerHour: bytes };
}
