import { computed, signal } from '@preact/signals';
import { get } from '../api/client.ts';
import type { Project, Projects } from '../api/types.ts';
import { query, setQuery } from './router.ts';
import { recall, remember } from './storage.ts';

/** Every project, the oldest first; undefined until they are read. */
export const projects = signal<readonly Project[] | undefined>(undefined);

/** The project of the page: the one in the address, else the one that was chosen last, else the first. */
export const project = computed<Project | undefined>(() => {
  const all = projects.value ?? [];
  const named = query.value.get('project') ?? recall('project');
  return all.find(({ id }) => id === named) ?? all[0];
});

export async function loadProjects(): Promise<void> {
  projects.value = (await get<Projects>('/projects')).projects;
}

export function chooseProject(id: string): void {
  remember('project', id);
  setQuery({ project: id });
}
