import type { Window } from '../../src/model/usage-window.ts';

/** Names the keys of one organization: all in one hash slot. */
export type KeyName = (organizationId: string, name: string) => string;

/** The keys that the scripts work on, by role. */
export type CounterKeys = {
  readonly state: string;
  readonly month: string;
  readonly hour: string;
  readonly leases: string;
  readonly reserved: string;
};

export function counterKeys(
  key: KeyName,
  organizationId: string,
  { month, hour }: Pick<Window, 'month' | 'hour'>,
): CounterKeys {
  return {
    state: key(organizationId, 'state'),
    month: key(organizationId, `month:${month}`),
    hour: key(organizationId, `hour:${hour}`),
    ...leaseKeys(key, organizationId),
  };
}

/** Those that do not depend on the time. */
export function leaseKeys(
  key: KeyName,
  organizationId: string,
): Pick<CounterKeys, 'leases' | 'reserved'> {
  return { leases: key(organizationId, 'leases'), reserved: key(organizationId, 'reserved') };
}
