import type { Factory } from '../component/factory.ts';
import { parseEndpoint } from '../schema/fields.ts';
import type { Declared, PipelineConfig } from './config.ts';
import type { Draft } from './draft.ts';
import { isUsed } from './references.ts';
import { SECTIONS, type SectionName } from './registry.ts';
import { visit } from './shape.ts';
import type { Path } from './tree.ts';

/**
 * With more than one worker, finds components that cannot run in several processes. `auto` counts as more than one
 * on every machine, so that a configuration is valid on all machines or on none.
 */
export function checkWorkers(draft: Draft): void {
  if (draft.service.workers === 1) return;
  for (const section of Object.keys(SECTIONS) as SectionName[]) {
    for (const component of draft[section].values()) {
      if (!isUsed(draft, section, component.id) || component.config === undefined) continue;
      checkComponent(draft, [section, component.id], component);
    }
  }
  for (const pipeline of draft.pipelines) checkJoining(draft, pipeline);
}

const INSTEAD = 'leave `service.workers` out';

function checkComponent(draft: Draft, path: Path, { factory, config }: Declared<Factory>): void {
  const reason = factory.placement?.oneProcess?.(config);
  if (reason !== undefined) draft.report('error', path, `${reason}; ${INSTEAD}`);
  if (factory.kind !== 'receiver') return;
  visit(factory.config, config, (field, value, marks) => {
    if (marks.listens === undefined || parseEndpoint(String(value))?.port !== 0) return;
    const message = `with port 0 every worker would listen on another port; name one, or ${INSTEAD}`;
    draft.report('error', [...path, ...field], message);
  });
}

/** Two requests about one observation may reach different workers, and an exporter sees only one of them. */
function checkJoining(draft: Draft, pipeline: PipelineConfig): void {
  const receiver = eventsInto(draft, pipeline, new Set());
  if (receiver === undefined) return;
  for (const [index, id] of pipeline.exporters.entries()) {
    const exporter = draft.exporters.get(id);
    if (exporter?.config === undefined) continue;
    if (exporter.factory.data.joinsEvents?.(exporter.config) !== true) continue;
    draft.report(
      'error',
      ['service', 'pipelines', pipeline.id, 'exporters', index],
      `"${id}" joins the start of an observation, received by "${receiver}", with its end, ` +
        `which another worker may receive; ${INSTEAD}`,
    );
  }
}

/** A receiver of events whose data reaches the pipeline, also through connectors. */
function eventsInto(
  draft: Draft,
  pipeline: PipelineConfig,
  seen: Set<PipelineConfig>,
): string | undefined {
  if (seen.has(pipeline)) return undefined;
  seen.add(pipeline);
  const own = pipeline.receivers.find(
    (id) => draft.receivers.get(id)?.factory.data?.receivesEvents,
  );
  if (own !== undefined) return own;
  const feeding = draft.pipelines.filter((other) =>
    other.exporters.some((id) => draft.connectors.has(id) && pipeline.receivers.includes(id)),
  );
  for (const other of feeding) {
    const found = eventsInto(draft, other, seen);
    if (found !== undefined) return found;
  }
  return undefined;
}
