import { z } from 'zod';
import { readLocally } from '../read/local.ts';
import { ControlError, readArguments } from './protocol.ts';
import { projectFor, type StoreCommand, type StoreWork } from './store-work.ts';

export const TRACE_COMMANDS = { 'traces.read': read } as const satisfies Record<
  string,
  StoreCommand
>;

/** The answer to a reading request about a project. */
export type ProjectRead = {
  /** The id of the project. */
  readonly project: string;
  readonly answer: unknown;
};

/** `target` is a path and query relative to the project, as the reading requests have them. */
const readArgumentsOf = z.strictObject({
  project: z.string().optional(),
  target: z.string().max(16_384),
});

async function read({ store, reads, by }: StoreWork, args: unknown): Promise<ProjectRead> {
  const { project, target } = readArguments(readArgumentsOf, args);
  const { id, organizationId } = await projectFor(store, project);
  const tenant = {
    ...{ organizationId, projectId: id, keyId: by.actor },
    permissions: ['traces:read'],
  } as const;
  const { status, body } = await readLocally(reads, { tenant, store }, target);
  const answer: unknown = JSON.parse(body);
  if (status === 200) return { project: id, answer };
  const { code, message } = answer as { code: string; message: string };
  throw new ControlError(code, message);
}
