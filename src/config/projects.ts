import type { PipelineConfig } from './config.ts';
import type { Draft } from './draft.ts';

/** Data of several projects must not become one project at the destination, unless the configuration permits it. */
export function checkProjects(draft: Draft): void {
  for (const pipeline of draft.pipelines) {
    for (const [index, id] of pipeline.exporters.entries()) {
      const exporter = draft.exporters.get(id);
      if (exporter?.config === undefined) continue;
      const field = exporter.factory.tenancy?.mixesProjects?.(exporter.config);
      if (field === undefined) continue;
      const projects = projectsOf(draft, pipelinesOf(draft, id));
      if (projects !== 'any' && projects.size < 2) continue;
      const which = projects === 'any' ? 'any project of a store' : [...projects].join(', ');
      draft.report(
        'error',
        ['service', 'pipelines', pipeline.id, 'exporters', index],
        `"${id}" sends everything with one key, but its data has several projects (${which}): give each project an exporter of its own, or set ${field}: true to merge them`,
      );
    }
  }
}

function pipelinesOf(draft: Draft, exporterId: string): PipelineConfig[] {
  return draft.pipelines.filter(({ exporters }) => exporters.includes(exporterId));
}

/** The projects whose data reaches these pipelines, also through connectors. */
function projectsOf(
  draft: Draft,
  pipelines: readonly PipelineConfig[],
): ReadonlySet<string> | 'any' {
  const projects = new Set<string>();
  const entered = new Set<PipelineConfig>(pipelines);
  // The loop also visits pipelines that it adds.
  for (const pipeline of entered) {
    const named = projectsNamedIn(draft, pipeline);
    if (named === 'any') return 'any';
    for (const project of named) projects.add(project);
    for (const other of draft.pipelines) {
      if (other.exporters.some((id) => pipeline.receivers.includes(id))) entered.add(other);
    }
  }
  return projects;
}

function projectsNamedIn(draft: Draft, pipeline: PipelineConfig): readonly string[] | 'any' {
  const receivers = pipeline.receivers.flatMap((id) => draft.receivers.get(id) ?? []);
  if (receivers.length === 0) return [];
  for (const id of pipeline.processors) {
    const processor = draft.processors.get(id);
    if (processor?.config === undefined || processor.factory.tenancy?.authenticates !== true)
      continue;
    return processor.factory.tenancy.projects?.(processor.config) ?? 'any';
  }
  return receivers.flatMap(({ config }) => {
    const project = (config as { project?: unknown } | undefined)?.project;
    return typeof project === 'string' ? [project] : [];
  });
}
