import type { DataKind, DurableKind } from '../component/component.ts';
import { didYouMean } from '../component/did-you-mean.ts';
import type {
  ConnectorFactory,
  ExporterFactory,
  ProcessorFactory,
  ReceiverFactory,
} from '../component/factory.ts';
import type { Declared, PipelineConfig } from './config.ts';
import type { Draft } from './draft.ts';
import { checkProjects } from './projects.ts';
import { type ConfigNode, isNull, nodeAt, type Path } from './tree.ts';

/** Checks that pipelines name declared components, that connectors join them, and that the parts fit together. */
export function checkGraph(draft: Draft): void {
  checkPipelineIds(draft);
  checkIdsOfBothKinds(draft);
  const isComplete = draft.pipelines
    .map((pipeline) => checkPipeline(draft, pipeline))
    .every((complete) => complete);
  if (draft.isServiceSound) warnOfUnused(draft);
  if (!isComplete) return;
  const order = inOrder(draft);
  if (order === undefined || !checkConnectors(draft)) return;
  checkDataKinds(draft, order);
  for (const pipeline of draft.pipelines) {
    checkOrderOfProcessors(draft, pipeline);
    checkTenant(draft, pipeline);
  }
  checkSharedReceivers(draft);
  checkProjects(draft);
}

const pathOf = (pipeline: PipelineConfig, ...rest: Path): Path => [
  'service',
  'pipelines',
  pipeline.id,
  ...rest,
];

/** A pipeline of the Collector's that cannot exist here. */
function isOfAnotherSignal({ id }: PipelineConfig): boolean {
  return ['metrics', 'logs', 'profiles'].includes(id.split('/')[0] ?? '');
}

function checkPipelineIds(draft: Draft): void {
  if (draft.pipelines.length === 0 && draft.isServiceSound) {
    draft.report(
      'error',
      ['service', 'pipelines'],
      'no pipelines are configured; nothing would run',
    );
  }
  for (const pipeline of draft.pipelines) {
    const type = pipeline.id.split('/')[0] ?? '';
    if (/^traces(\/[^\s\p{C}]{1,255})?$/u.test(pipeline.id)) continue;
    const message = isOfAnotherSignal(pipeline)
      ? `tracectl carries traces, not ${type}; remove the pipeline, or name it traces or traces/name`
      : `"${pipeline.id}" is not a pipeline's id; write traces or traces/name${didYouMean(type, ['traces'])}`;
    draft.report('error', pathOf(pipeline), message);
  }
}

/** An id in a pipeline must refer to one component. */
function checkIdsOfBothKinds(draft: Draft): void {
  for (const id of draft.connectors.keys()) {
    for (const kind of ['exporter', 'receiver'] as const) {
      const others = kind === 'exporter' ? draft.exporters : draft.receivers;
      if (!others.has(id)) continue;
      draft.report(
        'error',
        ['connectors', id],
        `ambiguous id: there is ${kind === 'exporter' ? 'an' : 'a'} ${kind} "${id}" too; rename one, such as "${id}/connector"`,
      );
    }
  }
}

type Role = 'receivers' | 'processors' | 'exporters';
const SINGULAR = { receivers: 'receiver', processors: 'processor', exporters: 'exporter' } as const;

/** True if every reference of the pipeline leads to a component. */
function checkPipeline(draft: Draft, pipeline: PipelineConfig): boolean {
  let isComplete = true;
  const fail = (path: Path, message: string) => {
    draft.report('error', path, message);
    isComplete = false;
  };
  for (const role of ['receivers', 'processors', 'exporters'] as const) {
    const seen = new Set<string>();
    if (role !== 'processors' && pipeline[role].length === 0) {
      isComplete = false;
      // A malformed list is reported at its place.
      if (!hasContent(nodeAt(draft.root, pathOf(pipeline, role)))) {
        fail(pathOf(pipeline), `has no ${SINGULAR[role]}; a pipeline needs at least one`);
      }
    }
    for (const [index, id] of pipeline[role].entries()) {
      const path = pathOf(pipeline, role, index);
      if (seen.has(id)) fail(path, `names the ${SINGULAR[role]} "${id}" twice`);
      seen.add(id);
      if (!isDeclared(draft, role, id)) fail(path, unknownReference(draft, role, id));
    }
  }
  return isComplete;
}

/** The file has any value there but an empty list. */
function hasContent(node: ConfigNode | undefined): boolean {
  if (node === undefined || isNull(node)) return false;
  return node.kind !== 'list' || node.items.length > 0;
}

/** From the file, not from the valid components, so that an invalid component is reported only once, at its place. */
function declaredIds(draft: Draft, section: string): string[] {
  const node = nodeAt(draft.root, [section]);
  return node?.kind === 'map' ? [...node.entries.keys()] : [];
}

function candidates(draft: Draft, role: Role): string[] {
  const own = declaredIds(draft, role);
  return role === 'processors' ? own : [...own, ...declaredIds(draft, 'connectors')];
}

function isDeclared(draft: Draft, role: Role, id: string): boolean {
  return candidates(draft, role).includes(id);
}

function unknownReference(draft: Draft, role: Role, id: string): string {
  const known = candidates(draft, role);
  const elsewhere = (['receivers', 'processors', 'connectors', 'exporters', 'extensions'] as const)
    .filter((section) => section !== role && declaredIds(draft, section).includes(id))
    .map((section) => ` ("${id}" is declared under ${section})`);
  return `references ${SINGULAR[role]} "${id}" which is not configured${elsewhere[0] ?? didYouMean(id, known)}`;
}

function warnOfUnused(draft: Draft): void {
  const used = { receivers: new Set(), processors: new Set(), exporters: new Set() };
  for (const pipeline of draft.pipelines) {
    for (const role of ['receivers', 'processors', 'exporters'] as const) {
      for (const id of pipeline[role]) used[role].add(id);
    }
  }
  for (const role of ['receivers', 'processors', 'exporters'] as const) {
    for (const id of draft[role].keys()) {
      if (used[role].has(id)) continue;
      draft.report(
        'warning',
        [role, id],
        `no pipeline names this ${SINGULAR[role]}: it is not started`,
      );
    }
  }
  for (const id of draft.connectors.keys()) {
    if (used.receivers.has(id) || used.exporters.has(id)) continue;
    draft.report(
      'warning',
      ['connectors', id],
      'no pipeline names this connector: it is not started',
    );
  }
}

function checkConnectors(draft: Draft): boolean {
  let fits = true;
  for (const id of draft.connectors.keys()) {
    const feeding = draft.pipelines.filter((pipeline) => pipeline.exporters.includes(id));
    const fed = draft.pipelines.filter((pipeline) => pipeline.receivers.includes(id));
    if ((feeding.length === 0) === (fed.length === 0)) continue;
    fits = false;
    const [used, missing] =
      fed.length === 0 ? (['exporter', 'receiver'] as const) : (['receiver', 'exporter'] as const);
    const where = [...feeding, ...fed].map((pipeline) => pipeline.id).join(', ');
    draft.report(
      'error',
      ['connectors', id],
      `used as ${used} in ${where}, but no pipeline names it among its ${missing}s`,
    );
  }
  return fits;
}

/** The pipelines, each after those that feed it; undefined, with an issue, if they form a cycle. */
function inOrder(draft: Draft): readonly PipelineConfig[] | undefined {
  const ordered: PipelineConfig[] = [];
  const entered: PipelineConfig[] = [];
  let cycle: string[] | undefined;
  const enter = (pipeline: PipelineConfig) => {
    if (ordered.includes(pipeline) || cycle !== undefined) return;
    if (entered.includes(pipeline)) {
      cycle = [...entered.slice(entered.indexOf(pipeline)), pipeline]
        .map((each) => each.id)
        .reverse();
      return;
    }
    entered.push(pipeline);
    for (const feeding of feedersOf(draft, pipeline)) enter(feeding);
    entered.pop();
    ordered.push(pipeline);
  };
  draft.pipelines.forEach(enter);
  if (cycle === undefined) return ordered;
  const first = draft.pipelines.find((pipeline) => pipeline.id === cycle?.[0]);
  draft.report(
    'error',
    first === undefined ? ['service', 'pipelines'] : pathOf(first),
    `pipelines feed each other in a cycle: ${cycle.join(' → ')}`,
  );
  return undefined;
}

function feedersOf(draft: Draft, pipeline: PipelineConfig): PipelineConfig[] {
  const connectors = pipeline.receivers.filter((id) => draft.connectors.has(id));
  return draft.pipelines.filter((other) => other.exporters.some((id) => connectors.includes(id)));
}

const KIND_NAMES: Readonly<Record<DataKind, string>> = {
  received: 'received batches',
  raw: 'raw batches',
  observations: 'observations',
};

/** Follows the kind of data through every pipeline, and reports the first part that does not accept it. */
function checkDataKinds(draft: Draft, order: readonly PipelineConfig[]): void {
  const fromConnector = new Map<string, Set<DurableKind>>();
  for (const pipeline of order) {
    const kinds = new Set<DataKind>();
    for (const id of pipeline.receivers) {
      if (!draft.connectors.has(id)) kinds.add(kindFrom(draft.receivers.get(id)?.factory));
      for (const kind of fromConnector.get(id) ?? []) kinds.add(kind);
    }
    for (const start of kinds) {
      const end = kindBehindProcessors(draft, pipeline, start);
      if (end === undefined) continue;
      for (const [index, id] of pipeline.exporters.entries()) {
        const connector = draft.connectors.get(id)?.factory;
        const factory = connector ?? draft.exporters.get(id)?.factory;
        if (factory === undefined) continue;
        const accepts = acceptedBy(factory, draft.exporters.get(id)?.config);
        if (!accepts.includes(end)) {
          const message = misfit(draft, `${factory.kind} "${id}"`, accepts, end);
          draft.report('error', pathOf(pipeline, 'exporters', index), message);
        } else if (connector !== undefined) {
          const emitted = connector.data.emits === 'same' ? end : connector.data.emits;
          fromConnector.set(id, (fromConnector.get(id) ?? new Set()).add(emitted));
        }
      }
    }
  }
}

/** A receiver that delivers to each exporter takes sealed batches out of a queue. */
function kindFrom(factory: ReceiverFactory | undefined): DataKind {
  return factory?.data?.deliversToEach === true ? 'raw' : 'received';
}

function acceptedBy(
  factory: ExporterFactory | ConnectorFactory,
  config: unknown,
): readonly DurableKind[] {
  const narrowed =
    factory.kind === 'exporter' && config !== undefined
      ? factory.data.acceptsAs?.(config)
      : undefined;
  return narrowed ?? factory.data.accepts;
}

/** A received batch is sealed before the first processor that accepts another kind, or behind the last one. */
function kindBehindProcessors(
  draft: Draft,
  pipeline: PipelineConfig,
  start: DataKind,
): DurableKind | undefined {
  let kind = start;
  for (const [index, id] of pipeline.processors.entries()) {
    const factory = draft.processors.get(id)?.factory;
    if (factory === undefined) return undefined;
    const accepts: readonly DataKind[] = factory.data.accepts;
    if (kind === 'received' && !accepts.includes(kind)) kind = 'raw';
    if (!accepts.includes(kind)) {
      const message = misfit(draft, `processor "${id}"`, accepts, kind);
      draft.report('error', pathOf(pipeline, 'processors', index), message);
      return undefined;
    }
    if (factory.data.emits !== 'same') kind = factory.data.emits;
  }
  return kind === 'received' ? 'raw' : kind;
}

function misfit(draft: Draft, part: string, accepts: readonly DataKind[], given: DataKind): string {
  const wanted = accepts.map((kind) => KIND_NAMES[kind]).join(' or ');
  const mend = mendOf(draft, accepts, given);
  return `${part} takes ${wanted}, but here the pipeline carries ${KIND_NAMES[given]}${mend}`;
}

/** `; …`, where to put the part or a processor, or nothing. */
function mendOf(draft: Draft, accepts: readonly DataKind[], given: DataKind): string {
  const converters = draft.registry
    .filter((factory): factory is ProcessorFactory => factory.kind === 'processor')
    .filter((factory) => factory.data.emits !== 'same');
  const towards = converters.find(
    ({ data }) =>
      data.accepts.some((kind) => kind === given) && accepts.some((kind) => data.emits === kind),
  );
  if (towards !== undefined) return `; put the processor ${towards.type} before it`;
  const away = converters.find((factory) => factory.data.emits === given);
  if (away !== undefined) return `; put it before the processor ${away.type}`;
  const isBehindQueue = given === 'raw' && accepts.includes('received');
  return isBehindQueue ? '; put it into the pipeline in front of the queue' : '';
}

function processorsOf(draft: Draft, pipeline: PipelineConfig): Declared<ProcessorFactory>[] {
  return pipeline.processors.flatMap((id) => draft.processors.get(id) ?? []);
}

function checkOrderOfProcessors(draft: Draft, pipeline: PipelineConfig): void {
  const processors = processorsOf(draft, pipeline);
  for (const [index, { id, factory }] of processors.entries()) {
    if (factory.data.reservesUsage !== true) continue;
    const later = processors.slice(index + 1).filter((other) => mayChange(other.factory));
    if (later.length === 0) continue;
    const names = later.map((other) => `"${other.id}"`).join(', ');
    draft.report(
      'error',
      pathOf(pipeline, 'processors', index),
      `"${id}" must come after every processor that can change a batch; move it behind ${names}`,
    );
  }
}

/** Whether the processor may reject, drop or edit items of a received batch. */
function mayChange({ data, tenancy }: ProcessorFactory): boolean {
  const isOfRequests = data.accepts.some((kind) => kind === 'received');
  return isOfRequests && data.reservesUsage !== true && tenancy?.authenticates !== true;
}

/** Every request needs a tenant: a processor names it, or the receiver has a project of its own. */
function checkTenant(draft: Draft, pipeline: PipelineConfig): void {
  const naming = processorsOf(draft, pipeline).filter(
    ({ factory }) => factory.tenancy?.authenticates === true,
  );
  if (naming.length > 1) {
    const index = pipeline.processors.indexOf(naming[1]?.id ?? '');
    draft.report(
      'error',
      pathOf(pipeline, 'processors', index),
      `"${naming[1]?.id}" authenticates a second time, after "${naming[0]?.id}"; keep one`,
    );
  }
  if (naming.length > 0) return;
  const able = draft.registry
    .filter((factory) => factory.kind === 'processor' && factory.tenancy?.authenticates === true)
    .map((factory) => factory.type)
    .join(' or ');
  for (const [index, id] of pipeline.receivers.entries()) {
    const receiver = draft.receivers.get(id);
    if (receiver?.factory.tenancy?.hasProject !== true || receiver.config === undefined) continue;
    if ((receiver.config as { project?: unknown }).project !== undefined) continue;
    draft.report(
      'error',
      pathOf(pipeline, 'receivers', index),
      `the data that "${id}" receives has no project; put the processor ${able} into the pipeline, or set the project of the receiver`,
    );
  }
}

/** A receiver gives each client one answer, so it belongs to one pipeline. */
function checkSharedReceivers(draft: Draft): void {
  for (const id of draft.receivers.keys()) {
    const fed = draft.pipelines.filter(
      (pipeline) => pipeline.receivers.includes(id) && !isOfAnotherSignal(pipeline),
    );
    if (fed.length < 2) continue;
    draft.report(
      'error',
      ['receivers', id],
      `feeds ${fed.map((pipeline) => pipeline.id).join(' and ')}, but a receiver belongs to one pipeline: ` +
        'declare a second receiver, or name several exporters in one pipeline',
    );
  }
}
