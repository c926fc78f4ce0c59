import { z } from 'zod';
import { projectChange } from './project-change.ts';
import { readArguments } from './protocol.ts';
import { type ShownProject, shownProject } from './public-form.ts';
import { projectFor, type StoreCommand, type StoreWork } from './store-work.ts';

export const PROJECT_COMMANDS = {
  'projects.list': listProjects,
  'projects.show': showProject,
  'projects.create': createProject,
  'projects.update': updateProject,
  'projects.delete': deleteProject,
} as const satisfies Record<string, StoreCommand>;

const showArguments = z.strictObject({ project: z.string() });
const createArguments = z.strictObject({ name: z.string() });
const updateArguments = z.strictObject({
  project: z.string(),
  name: z.string().optional(),
  retention: z.strictObject({ days: z.int().nullable() }).optional(),
  limits: z
    .strictObject({
      events_per_month: z.int().nullable().optional(),
      bytes_per_hour: z.int().nullable().optional(),
    })
    .optional(),
});
const deleteArguments = z.strictObject({ id: z.string() });

async function listProjects({ store }: StoreWork): Promise<{ projects: ShownProject[] }> {
  return { projects: (await store.projects.list()).map(shownProject) };
}

async function showProject({ store }: StoreWork, args: unknown): Promise<ShownProject> {
  const { project } = readArguments(showArguments, args);
  return shownProject(await projectFor(store, project));
}

async function createProject({ store, by }: StoreWork, args: unknown): Promise<ShownProject> {
  const { name } = readArguments(createArguments, args);
  return shownProject(await store.projects.create(name, by));
}

async function updateProject({ store, by }: StoreWork, args: unknown): Promise<ShownProject> {
  const { project, ...asked } = readArguments(updateArguments, args);
  const { id } = await projectFor(store, project);
  return shownProject(await store.projects.update(id, projectChange(asked), by));
}

/** By id only: the caller has resolved the name and confirmed the project. */
async function deleteProject({ store, by }: StoreWork, args: unknown): Promise<{ id: string }> {
  const { id } = readArguments(deleteArguments, args);
  await store.projects.delete(id, by);
  return { id };
}
