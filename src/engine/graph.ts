import type { ComponentKind } from '../component/component.ts';
import type {
  ConnectorFactory,
  ExporterFactory,
  Factory,
  ProcessorFactory,
  ReceiverFactory,
} from '../component/factory.ts';
import type { Declared, PipelineConfig, ServiceConfig } from '../config/config.ts';

/** One component to be created. */
export type Node<F extends Factory = Factory> = {
  /** Unique in a service: `exporter:file`, `processor:traces/accept:auth`. */
  readonly key: string;
  readonly kind: ComponentKind;
  readonly declared: Declared<F>;
};

export type ProcessorNode = Node<ProcessorFactory> & { readonly pipelineId: string };

export type ReceiverNode = Node<ReceiverFactory> & { readonly pipelineId: string };

export type ConnectorNode = Node<ConnectorFactory> & {
  /** The pipelines that name it as a receiver. */
  readonly pipelineIds: readonly string[];
};

export type PipelinePlan = {
  readonly id: string;
  readonly processors: readonly ProcessorNode[];
  /** Exporters and connectors, in the order of the configuration. */
  readonly exporters: readonly Node<ExporterFactory | ConnectorFactory>[];
};

/**
 * The components to run, each list in the order of its start: receiving components start before those that
 * send to them.
 *
 *   extensions ─▶ exporters ─▶ processors ─▶ connectors (downstream ones first) ─▶ receivers
 */
export type Graph = {
  readonly extensions: readonly Node[];
  readonly exporters: readonly Node<ExporterFactory>[];
  readonly processors: readonly ProcessorNode[];
  readonly connectors: readonly ConnectorNode[];
  readonly receivers: readonly ReceiverNode[];
  readonly pipelines: ReadonlyMap<string, PipelinePlan>;
};

/** A configuration whose components are valid, but not their connections. */
class GraphError extends Error {
  override readonly name = 'GraphError';
}

/** Plans the graph of a valid configuration, without components that no pipeline names. Throws `GraphError`. */
export function planGraph(config: ServiceConfig): Graph {
  const pipelines = new Map(config.service.pipelines.map((each) => [each.id, plan(config, each)]));
  const used = [...pipelines.values()];
  const exporters = new Map<string, Node<ExporterFactory>>();
  for (const { exporters: sinks } of used) {
    for (const node of sinks) {
      if (isExporter(node)) exporters.set(node.key, node);
    }
  }
  return {
    extensions: config.service.extensions.map((id) => ({
      key: `extension:${id}`,
      kind: 'extension',
      declared: required(config.extensions, id, 'service.extensions'),
    })),
    exporters: [...exporters.values()],
    processors: used.flatMap(({ processors }) => processors),
    connectors: downstreamFirst(connectorNodes(config)),
    receivers: receiverNodes(config),
    pipelines,
  };
}

function plan(config: ServiceConfig, pipeline: PipelineConfig): PipelinePlan {
  const where = `pipeline "${pipeline.id}"`;
  const processors = pipeline.processors.map((id) => ({
    key: `processor:${pipeline.id}:${id}`,
    kind: 'processor' as const,
    pipelineId: pipeline.id,
    declared: required(config.processors, id, where),
  }));
  const exporters = pipeline.exporters.map((id): Node<ExporterFactory | ConnectorFactory> => {
    const connector = config.connectors.get(id);
    if (connector !== undefined) {
      return { key: `connector:${id}`, kind: 'connector', declared: connector };
    }
    return {
      key: `exporter:${id}`,
      kind: 'exporter',
      declared: required(config.exporters, id, where),
    };
  });
  return { id: pipeline.id, processors, exporters };
}

function isExporter(node: Node<ExporterFactory | ConnectorFactory>): node is Node<ExporterFactory> {
  return node.kind === 'exporter';
}

function receiverNodes(config: ServiceConfig): ReceiverNode[] {
  const nodes = new Map<string, ReceiverNode>();
  for (const pipeline of config.service.pipelines) {
    for (const id of pipeline.receivers) {
      if (config.connectors.has(id)) continue;
      const other = nodes.get(id);
      if (other !== undefined) {
        throw new GraphError(
          `receiver "${id}" is in the pipelines "${other.pipelineId}" and "${pipeline.id}": ` +
            'a receiver belongs to one pipeline; declare a second one, or fan out to several exporters',
        );
      }
      const declared = required(config.receivers, id, `pipeline "${pipeline.id}"`);
      checkTenant(config, pipeline, declared);
      nodes.set(id, {
        key: `receiver:${id}`,
        kind: 'receiver',
        pipelineId: pipeline.id,
        declared,
      });
    }
  }
  return [...nodes.values()];
}

/** The tenant must be known: from a processor that authenticates, or from the receiver's `project`. */
function checkTenant(
  config: ServiceConfig,
  pipeline: PipelineConfig,
  receiver: Declared<ReceiverFactory>,
): void {
  if (receiver.factory.tenancy?.hasProject !== true) return;
  const authenticates = pipeline.processors.some(
    (id) => config.processors.get(id)?.factory.tenancy?.authenticates === true,
  );
  if (authenticates || hasValue(receiver.config, 'project')) return;
  throw new GraphError(
    `the project of the data that receiver "${receiver.id}" receives is unknown: ` +
      `put an "auth" processor into pipeline "${pipeline.id}", or set receivers.${receiver.id}.project`,
  );
}

function hasValue(config: unknown, key: string): boolean {
  if (typeof config !== 'object' || config === null) return false;
  return (config as Record<string, unknown>)[key] !== undefined;
}

function connectorNodes(config: ServiceConfig): (ConnectorNode & { feeds: string[] })[] {
  const { pipelines } = config.service;
  const isUsed = (id: string) =>
    pipelines.some(({ receivers, exporters }) => receivers.includes(id) || exporters.includes(id));
  return [...config.connectors.values()]
    .filter(({ id }) => isUsed(id))
    .map((declared) => {
      const fed = pipelines.filter(({ receivers }) => receivers.includes(declared.id));
      return {
        key: `connector:${declared.id}`,
        kind: 'connector' as const,
        declared,
        pipelineIds: fed.map(({ id }) => id),
        feeds: fed.flatMap(({ exporters }) => exporters.filter((id) => config.connectors.has(id))),
      };
    });
}

/** Sorts connectors so that each comes behind those that it sends to. Throws if they form a cycle. */
function downstreamFirst(nodes: (ConnectorNode & { feeds: string[] })[]): ConnectorNode[] {
  const ordered: ConnectorNode[] = [];
  let waiting = nodes;
  while (waiting.length > 0) {
    const ids = new Set(waiting.map(({ declared }) => declared.id));
    const free = waiting.filter(({ feeds }) => !feeds.some((id) => ids.has(id)));
    if (free.length === 0) {
      const cycle = waiting.map(({ declared }) => `"${declared.id}"`).join(', ');
      throw new GraphError(`the connectors ${cycle} feed each other in a cycle`);
    }
    for (const { feeds: _feeds, ...node } of free) ordered.push(node);
    waiting = waiting.filter((node) => !free.includes(node));
  }
  return ordered;
}

function required<F>(
  declared: ReadonlyMap<string, Declared<F>>,
  id: string,
  where: string,
): Declared<F> {
  const found = declared.get(id);
  if (found === undefined) throw new GraphError(`${where} names "${id}", which is not declared`);
  return found;
}
