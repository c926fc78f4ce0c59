import { z } from 'zod';
import type { ApiKey } from '../tenancy/contract.ts';
import { readArguments } from './protocol.ts';
import { type ShownKey, shownKey } from './public-form.ts';
import { projectFor, type StoreCommand, type StoreWork } from './store-work.ts';

export const KEY_COMMANDS = {
  'keys.list': listKeys,
  'keys.create': createKey,
  'keys.revoke': revokeKey,
} as const satisfies Record<string, StoreCommand>;

/** The JSON of a key, with its project. */
export type ListedKey = ShownKey & { readonly project_id: string };

const listArguments = z.strictObject({ project: z.string().optional() });
const createArguments = z.strictObject({
  project: z.string().optional(),
  name: z.string().optional(),
  permissions: z.array(z.enum(['ingest:write', 'traces:read'])).optional(),
});
const revokeArguments = z.strictObject({ id: z.string() });

async function listKeys({ store }: StoreWork, args: unknown): Promise<{ keys: ListedKey[] }> {
  const { project } = readArguments(listArguments, args);
  const keys = await store.keys.list(
    project === undefined ? undefined : (await projectFor(store, project)).id,
  );
  return { keys: keys.map(listed) };
}

async function createKey(
  { store, by }: StoreWork,
  args: unknown,
): Promise<ListedKey & { token: string }> {
  const { project, name, permissions } = readArguments(createArguments, args);
  const { id } = await projectFor(store, project);
  const request = {
    projectId: id,
    ...(name === undefined ? {} : { name }),
    ...(permissions === undefined ? {} : { permissions }),
  };
  const { key, token } = await store.keys.create(request, by);
  return { ...listed(key), token };
}

async function revokeKey({ store, by }: StoreWork, args: unknown): Promise<ListedKey> {
  const { id } = readArguments(revokeArguments, args);
  return listed(await store.keys.revoke(id, by));
}

function listed(key: ApiKey): ListedKey {
  const { id, ...rest } = shownKey(key);
  return { id, project_id: key.projectId, ...rest };
}
