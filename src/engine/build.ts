import type {
  Component,
  Connector,
  Exporter,
  Extension,
  Processor,
  Settings,
} from '../component/component.ts';
import type { ExtensionFactory, ProcessorFactory } from '../component/factory.ts';
import type { Edges } from './edges.ts';
import { createSink } from './fanout.ts';
import type { Graph, Node, PipelinePlan } from './graph.ts';
import type { Chain, Line } from './pipeline.ts';
import { createPipeline } from './pipeline.ts';
import type { Surroundings, Unit } from './units.ts';
import { createUnit } from './units.ts';

/** A graph made of components. */
export type Build = {
  readonly graph: Graph;
  /** By key, in the order of their start: extensions first, receivers last. */
  readonly units: ReadonlyMap<string, Unit>;
  /** Those of `units` that were made for this build; the others run already. */
  readonly fresh: readonly Unit[];
  readonly chains: ReadonlyMap<string, Chain>;
};

export type BuildOptions = {
  readonly graph: Graph;
  readonly around: Surroundings;
  readonly edges: Edges;
  /** Components of the running graph that go on as they are, by key. */
  readonly kept: ReadonlyMap<string, Unit>;
  /** Chains of the running graph, which go on where none of their components changed. */
  readonly runningChains: ReadonlyMap<string, Chain>;
};

/**
 * Creates every component that is not kept, in the order of their start; nothing is started. Throws
 * `ComponentError`; what had been created by then is shut down.
 */
export async function build(options: BuildOptions): Promise<Build> {
  const units = new Map<string, Unit>();
  const fresh: Unit[] = [];
  try {
    const chains = await createAll(options, units, fresh);
    return { graph: options.graph, units, fresh, chains };
  } catch (error) {
    await discard(fresh);
    throw error;
  }
}

/** Shuts down components that were never started. */
export async function discard(fresh: readonly Unit[]): Promise<void> {
  for (const unit of fresh.toReversed()) {
    unit.state = 'stopped';
    await unit.component.shutdown(AbortSignal.abort()).catch(() => {});
    unit.forget();
  }
}

async function createAll(
  options: BuildOptions,
  units: Map<string, Unit>,
  fresh: Unit[],
): Promise<Map<string, Chain>> {
  const { graph, around, edges, kept } = options;
  const chains = new Map<string, Chain>();

  async function use<C extends Component>(
    node: Node,
    lines: () => readonly Line[],
    create: Parameters<typeof createUnit<C>>[3],
  ): Promise<Unit<C>> {
    // A kept unit was created for the same node, so it is of the same kind.
    let unit = kept.get(node.key) as Unit<C> | undefined;
    if (unit === undefined) {
      unit = await createUnit(node, around, lines(), create);
      fresh.push(unit);
    }
    units.set(node.key, unit);
    return unit;
  }

  for (const node of graph.extensions) {
    const { factory, config, id } = node.declared;
    const unit = await use<Extension>(node, none, (settings) =>
      (factory as ExtensionFactory).create(settings, config),
    );
    around.extensions.set(id, unit);
  }
  for (const node of graph.exporters) {
    const { factory, config } = node.declared;
    await use<Exporter>(node, none, (settings) => factory.create(settings, config));
  }
  for (const node of graph.processors) {
    const { factory, config } = node.declared;
    await use<Processor>(node, none, (settings) =>
      (factory as ProcessorFactory).create(settings, config),
    );
  }
  for (const node of graph.connectors) {
    const { factory, config, id } = node.declared;
    for (const pipelineId of node.pipelineIds) ensureChain(pipelineId, options, units, chains);
    const lines = node.pipelineIds.map((pipelineId) => newLine(pipelineId, chains));
    const unit = await use<Connector>(
      node,
      () => lines,
      (settings) => {
        const pipelines = lines.map((line) =>
          createPipeline(line, edges.receiver('connector', id, line.id), false),
        );
        return factory.create(settings, config, pipelines);
      },
    );
    for (const line of lines) addDependencies(unit, graph.pipelines.get(line.id));
  }
  for (const node of graph.receivers) {
    const { factory, config, id } = node.declared;
    ensureChain(node.pipelineId, options, units, chains);
    const line = newLine(node.pipelineId, chains);
    const pipeline = createPipeline(line, edges.receiver('receiver', id, line.id), true);
    const create = (settings: Settings) => factory.create(settings, config, pipeline);
    const unit = await use(node, () => [line], create);
    addStoreDependencies(unit, units, graph.pipelines.get(line.id));
    if (factory.data?.deliversToEach === true) addDependencies(unit, graph.pipelines.get(line.id));
  }
  return chains;
}

function none(): readonly Line[] {
  return [];
}

/** Who delivers knows the exporters behind it by name: it does not outlive a change among them. */
function addDependencies(unit: Unit, plan: PipelinePlan | undefined): void {
  for (const node of [...(plan?.processors ?? []), ...(plan?.exporters ?? [])]) {
    unit.dependencies.add(node.key);
  }
}

/** A receiver serves reading where its pipeline names a store, so it does not outlive a change of that. */
function addStoreDependencies(
  unit: Unit,
  units: ReadonlyMap<string, Unit>,
  plan: PipelinePlan | undefined,
): void {
  for (const node of plan?.processors ?? []) {
    if (componentOf<Processor>(units, node).storeId !== undefined) unit.dependencies.add(node.key);
  }
}

function newLine(id: string, chains: ReadonlyMap<string, Chain>): Line {
  const chain = chains.get(id);
  if (chain === undefined) throw new Error(`pipeline "${id}" was not planned`);
  return { id, chain, gate: undefined };
}

function ensureChain(
  id: string,
  { graph, edges, runningChains }: BuildOptions,
  units: ReadonlyMap<string, Unit>,
  chains: Map<string, Chain>,
): void {
  const plan = graph.pipelines.get(id);
  if (plan === undefined || chains.has(id)) return;
  const made: Chain = {
    steps: plan.processors.map((node) => ({
      processor: componentOf<Processor>(units, node),
      edge: edges.processor(node.declared.id, id),
      normalizes: (node.declared.factory as ProcessorFactory).data.emits === 'observations',
    })),
    sinks: plan.exporters.map((node) => {
      const kind = node.kind === 'connector' ? 'connector' : 'exporter';
      const exporter = componentOf<Exporter>(units, node);
      return createSink(node.declared.id, exporter, edges.exporter(node.declared.id, id, kind));
    }),
    active: 0,
    onIdle: undefined,
  };
  const running = runningChains.get(id);
  chains.set(id, running !== undefined && isSame(running, made) ? running : made);
}

function isSame(a: Chain, b: Chain): boolean {
  return (
    a.steps.length === b.steps.length &&
    a.sinks.length === b.sinks.length &&
    a.steps.every(({ processor }, i) => processor === b.steps[i]?.processor) &&
    a.sinks.every(({ exporter }, i) => exporter === b.sinks[i]?.exporter)
  );
}

function componentOf<C extends Component>(units: ReadonlyMap<string, Unit>, node: Node): C {
  const unit = units.get(node.key);
  if (unit === undefined) throw new Error(`${node.key} is used before it is made`);
  return unit.component as C;
}
