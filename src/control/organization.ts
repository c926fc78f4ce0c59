import { z } from 'zod';
import { readArguments } from './protocol.ts';
import {
  type ShownOrganization,
  type ShownPlan,
  shownOrganization,
  shownPlans,
} from './public-form.ts';
import type { StoreCommand, StoreWork } from './store-work.ts';

export const ORGANIZATION_COMMANDS = {
  'organization.update': updateOrganization,
  'organization.plans': listPlans,
} as const satisfies Record<string, StoreCommand>;

const updateArguments = z.strictObject({
  name: z.string().optional(),
  plan: z.enum(['free', 'pro', 'scale', 'enterprise']).optional(),
});

async function updateOrganization(
  { store, by }: StoreWork,
  args: unknown,
): Promise<ShownOrganization> {
  const { name, plan } = readArguments(updateArguments, args);
  const change = {
    ...(name === undefined ? {} : { name }),
    ...(plan === undefined ? {} : { plan }),
  };
  const organization = await store.organization.update(change, by);
  return shownOrganization(organization, await store.counters.read(organization.id));
}

async function listPlans({ store }: StoreWork): Promise<{ plans: ShownPlan[] }> {
  return shownPlans(await store.organization.plans());
}
