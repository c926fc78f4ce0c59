import { computed, signal } from '@preact/signals';
import { get, onUnknownProject } from '../api/client.ts';
import type { Project, Projects } from '../api/types.ts';
import { query, setQuery } from './router.ts';
import { recall, remember } from './storage.ts';

/** Every project, the oldest first; undefined until they are read. */
export const projects = signal<readonly Project[] | undefined>(undefined);

/** Read once: a choice in another tab does not change the project of this one. */
const remembered = recall('project');

/**
 * The project of the page: the one in the address, else the one that was chosen last, else the first. Undefined if the
 * address has one that does not exist.
 */
export const project = computed<Project | undefined>(() => {
  const all = projects.value ?? [];
  const named = query.value.get('project');
  if (named !== null) return all.find(({ id }) => id === named);
  return all.find(({ id }) => id === remembered) ?? all[0];
});

export async function loadProjects(): Promise<void> {
  projects.value = (await get<Projects>('/projects')).projects;
  // A link to the page names its project, for another person and another tab.
  const isOneOfMany = projects.value.length > 1 && !query.value.has('project');
  if (isOneOfMany) setQuery({ project: project.value?.id }, { replace: true });
}

// Another tab, or another person, deleted it. The page that asked shows the failure if the list cannot be read either.
onUnknownProject(() => void loadProjects().catch(() => undefined));

export function chooseProject(id: string, options: { readonly replace?: boolean } = {}): void {
  setQuery({ project: id }, options);
  // A page with a new key asks before it is left, so the address may still have the former project.
  if (query.value.get('project') === id) remember('project', id);
}
