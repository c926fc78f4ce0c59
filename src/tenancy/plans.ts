import { z } from 'zod';
import { byteSize } from '../schema/fields.ts';
import { mark } from '../schema/marks.ts';
import type { Limits, PlanName } from './contract.ts';
import { PLAN_NAMES } from './contract.ts';
import type { AllowedProjects } from './rows.ts';

/** The absence of a limit, as a configuration writes it. */
const UNLIMITED = 'unlimited';

const count = mark(
  z
    .union([z.literal(UNLIMITED), z.int().min(0)], {
      error: 'expected a whole number, or unlimited',
    })
    .meta({ examples: [UNLIMITED, 50_000] }),
  { form: 'integer or `unlimited`' },
);
const bytes = mark(
  z
    .union([z.literal(UNLIMITED), byteSize()], {
      error: 'expected a size, such as 256MiB, or unlimited',
    })
    .meta({ examples: [UNLIMITED, '256MiB'] }),
  { form: 'size or `unlimited`' },
);

const PROJECTS = 'Most projects of the organization.';
const EVENTS = 'Most accepted events per UTC calendar month.';
const BYTES = 'Most accepted payload bytes per UTC clock hour.';
const DAYS = 'Retention of traces in days; a project may have a shorter one.';

type Written = {
  projects: number | typeof UNLIMITED;
  events_per_month: number | typeof UNLIMITED;
  bytes_per_hour: string | typeof UNLIMITED;
  retention_days: number | typeof UNLIMITED;
};

function plan(meaning: string, byDefault: Written) {
  return z
    .strictObject({
      projects: count.prefault(byDefault.projects).describe(PROJECTS),
      events_per_month: count.prefault(byDefault.events_per_month).describe(EVENTS),
      bytes_per_hour: bytes.prefault(byDefault.bytes_per_hour).describe(BYTES),
      retention_days: count.prefault(byDefault.retention_days).describe(DAYS),
    })
    .prefault({})
    .describe(meaning);
}

const everyPlan = z.strictObject({
  free: plan('A plan for evaluation.', {
    projects: 1,
    events_per_month: 50_000,
    bytes_per_hour: '256MiB',
    retention_days: 14,
  }),
  pro: plan('A plan for a team.', {
    projects: UNLIMITED,
    events_per_month: 5_000_000,
    bytes_per_hour: '8GiB',
    retention_days: 90,
  }),
  scale: plan('The plan of a new organization.', {
    projects: UNLIMITED,
    events_per_month: 100_000_000,
    bytes_per_hour: '128GiB',
    retention_days: 400,
  }),
  enterprise: plan('A plan by agreement. It has only the limits that are set here.', {
    projects: UNLIMITED,
    events_per_month: UNLIMITED,
    bytes_per_hour: UNLIMITED,
    retention_days: UNLIMITED,
  }),
});

export const plans = mark(everyPlan, {
  page: 'extensions/sqlite/README.md#plans-and-limits',
}).prefault({});

export const organization = z
  .strictObject({
    projects: count.optional().describe(PROJECTS),
    events_per_month: count.optional().describe(EVENTS),
    bytes_per_hour: bytes.optional().describe(BYTES),
    retention_days: count.optional().describe(DAYS),
  })
  .prefault({});

export type PlansConfig = {
  readonly plans: z.output<typeof plans>;
  readonly organization: z.output<typeof organization>;
};

type Limit = 'projects' | 'events_per_month' | 'bytes_per_hour' | 'retention_days';

/** The organization's limits on a plan: its own limit if it has one, else the plan's. */
export function limitsOn(plan: PlanName, config: PlansConfig): Limits {
  const of = (name: Limit): number | null => {
    const limit = config.organization[name] ?? config.plans[plan][name];
    return limit === UNLIMITED ? null : limit;
  };
  return {
    projects: of('projects'),
    eventsPerMonth: of('events_per_month'),
    bytesPerHour: of('bytes_per_hour'),
    retentionDays: of('retention_days'),
  };
}

export function limitsByPlan(config: PlansConfig): Readonly<Record<PlanName, Limits>> {
  const limits = PLAN_NAMES.map((name) => [name, limitsOn(name, config)]);
  return Object.fromEntries(limits) as Record<PlanName, Limits>;
}

export function allowedProjects(config: PlansConfig): AllowedProjects {
  const allowed = PLAN_NAMES.map((name) => [name, limitsOn(name, config).projects]);
  return Object.fromEntries(allowed) as AllowedProjects;
}

export function isPlan(name: string): name is PlanName {
  return PLAN_NAMES.some((known) => known === name);
}
