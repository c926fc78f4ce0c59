import type { ProjectChange } from '../tenancy/contract.ts';

/** A change of a project in the admin API and in commands. Absent fields stay unchanged. */
export type ProjectChangeAsked = {
  readonly name?: string | undefined;
  readonly retention?: { readonly days: number | null } | undefined;
  readonly limits?:
    | {
        readonly events_per_month?: number | null | undefined;
        readonly bytes_per_hour?: number | null | undefined;
      }
    | undefined;
};

export function projectChange({ name, retention, limits }: ProjectChangeAsked): ProjectChange {
  return {
    ...(name === undefined ? {} : { name }),
    ...(retention === undefined ? {} : { retentionDays: retention.days }),
    ...(limits === undefined ? {} : { limits: limitsOf(limits) }),
  };
}

function limitsOf(asked: NonNullable<ProjectChangeAsked['limits']>): ProjectChange['limits'] & {} {
  const { events_per_month: events, bytes_per_hour: bytes } = asked;
  return {
    ...(events === undefined ? {} : { eventsPerMonth: events }),
    ...(bytes === undefined ? {} : { bytesPerHour: bytes }),
  };
}
