import { z } from 'zod';
import { moment } from './moment.ts';
import { ControlError, readArguments } from './protocol.ts';
import {
  type ShownAuditEntry,
  type ShownOrganization,
  type ShownRejection,
  shownAuditEntry,
  shownOrganization,
  shownRejection,
} from './public-form.ts';
import { projectFor, type StoreCommand, type StoreWork } from './store-work.ts';
import { type ShownHistory, shownHistory, UsageRangeError, usageRange } from './usage-range.ts';
import { verifyUsage } from './usage-verify.ts';

export const USAGE_COMMANDS = {
  'usage.show': showUsage,
  'usage.history': usageHistory,
  'usage.verify': verifyUsage,
  'rejections.list': listRejections,
  'audit.list': listAudit,
} as const satisfies Record<string, StoreCommand>;

const historyArguments = z.strictObject({
  from: moment.optional(),
  to: moment.optional(),
  by: z.enum(['day', 'hour']).optional(),
  project: z.string().optional(),
});
const page = {
  limit: z.int().min(1).max(1000).default(100),
  cursor: z.string().optional(),
};
const rejectionArguments = z.strictObject({ project: z.string().optional(), ...page });
const auditArguments = z.strictObject({
  ...page,
  action: z.string().optional(),
  actor: z.string().optional(),
  project: z.string().optional(),
  from: moment.optional(),
  to: moment.optional(),
});

async function showUsage({ store }: StoreWork): Promise<ShownOrganization> {
  const organization = await store.organization.get();
  return shownOrganization(organization, await store.counters.read(organization.id));
}

async function usageHistory({ store, clock }: StoreWork, args: unknown): Promise<ShownHistory> {
  const { project, ...asked } = readArguments(historyArguments, args);
  const range = rangeOf(asked, clock.now());
  return shownHistory(
    store,
    range,
    project === undefined ? undefined : await idOf({ store }, project),
  );
}

function rangeOf(
  asked: Parameters<typeof usageRange>[0],
  now: number,
): ReturnType<typeof usageRange> {
  try {
    return usageRange(asked, now);
  } catch (error) {
    if (!(error instanceof UsageRangeError)) throw error;
    throw new ControlError('invalid_request', error.message);
  }
}

/** The project of a usage row; only its id is known after a deletion. */
async function idOf({ store }: Pick<StoreWork, 'store'>, project: string): Promise<string> {
  return project.startsWith('proj_') ? project : (await projectFor(store, project)).id;
}

async function listRejections(
  { store }: StoreWork,
  args: unknown,
): Promise<{ rejections: ShownRejection[]; next_cursor: string | null }> {
  const { project, limit, cursor } = readArguments(rejectionArguments, args);
  const { id } = await projectFor(store, project);
  const asked = { limit, ...(cursor === undefined ? {} : { cursor }) };
  const { items, nextCursor } = await store.rejections.list(id, asked);
  return { rejections: items.map(shownRejection), next_cursor: nextCursor };
}

async function listAudit(
  { store }: StoreWork,
  args: unknown,
): Promise<{ audit: ShownAuditEntry[]; next_cursor: string | null }> {
  const asked = readArguments(auditArguments, args);
  const { limit, cursor, action, actor, project, from, to } = asked;
  const { items, nextCursor } = await store.audit.list({
    ...{ limit, action, actor },
    ...(cursor === undefined ? {} : { cursor }),
    ...(project === undefined ? {} : { projectId: await idOf({ store }, project) }),
    ...{ from: timeOf(from), to: timeOf(to) },
  });
  return { audit: items.map(shownAuditEntry), next_cursor: nextCursor };
}

function timeOf(moment: string | undefined): number | undefined {
  return moment === undefined ? undefined : Date.parse(moment);
}
