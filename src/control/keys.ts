import { z } from 'zod';
import type { ApiKey, Project, Store } from '../store/store.ts';
import { ControlError, readArguments } from './protocol.ts';

/** The key commands, the same over the control socket and against a store that no daemon owns. */
export const KEY_COMMANDS = {
  'keys.list': listKeys,
  'keys.create': createKey,
  'keys.revoke': revokeKey,
} as const;
export type KeyCommand = keyof typeof KEY_COMMANDS;

/** A key as commands print it. */
export type ShownKey = {
  readonly id: string;
  readonly project_id: string;
  readonly name: string;
  readonly prefix: string;
  readonly permissions: readonly string[];
  readonly created_at: string;
  readonly last_used_at: string | null;
  readonly revoked_at: string | null;
};

const listArguments = z.strictObject({ project: z.string().optional() });
const createArguments = z.strictObject({
  project: z.string().optional(),
  name: z.string().optional(),
  permissions: z.array(z.enum(['ingest:write', 'traces:read'])).optional(),
});
const revokeArguments = z.strictObject({ id: z.string() });

async function listKeys(store: Store, args: unknown): Promise<{ keys: ShownKey[] }> {
  const { project } = readArguments(listArguments, args);
  const keys = await store.keys.list(project);
  return { keys: keys.map(shown) };
}

async function createKey(store: Store, args: unknown): Promise<ShownKey & { token: string }> {
  const { project, name, permissions } = readArguments(createArguments, args);
  const { id } = await projectFor(store, project);
  const { key, token } = await store.keys.create({
    projectId: id,
    ...(name === undefined ? {} : { name }),
    ...(permissions === undefined ? {} : { permissions }),
  });
  return { ...shown(key), token };
}

async function revokeKey(store: Store, args: unknown): Promise<ShownKey> {
  const { id } = readArguments(revokeArguments, args);
  return shown(await store.keys.revoke(id));
}

/** The project that is meant: by id, by a name only one has, or the only one there is. */
async function projectFor(store: Store, wanted: string | undefined): Promise<Project> {
  const projects = await store.projects.list();
  const meant =
    wanted === undefined
      ? projects
      : projects.filter((project) => project.id === wanted || project.name === wanted);
  const [only] = meant;
  if (only !== undefined && meant.length === 1) return only;
  const choice = projects.map((project) => `${project.id} (${project.name})`).join(', ');
  if (projects.length === 0) throw new ControlError('no_project', 'the store has no project yet');
  throw new ControlError(
    'unknown_project',
    wanted === undefined
      ? `there are several projects; say which with --project: ${choice}`
      : `there is no single project "${wanted}"; there are: ${choice}`,
  );
}

function shown(key: ApiKey): ShownKey {
  return {
    id: key.id,
    project_id: key.projectId,
    name: key.name,
    prefix: key.prefix,
    permissions: key.permissions,
    created_at: time(key.createdAt),
    last_used_at: key.lastUsedAt === null ? null : time(key.lastUsedAt),
    revoked_at: key.revokedAt === null ? null : time(key.revokedAt),
  };
}

function time(milliseconds: number): string {
  return new Date(milliseconds).toISOString();
}
