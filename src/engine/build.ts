import type {
  BatchProcessor,
  Component,
  Connector,
  Exporter,
  Extension,
  Processor,
  RequestProcessor,
  Settings,
} from '../component/component.ts';
import type { ExtensionFactory, ProcessorFactory } from '../component/factory.ts';
import type { Scanner } from '../http/scan-pool.ts';
import type { Edges } from './edges.ts';
import { createSink } from './fanout.ts';
import type { Graph, Node, PipelinePlan, ProcessorNode } from './graph.ts';
import type { PipelineSlot, PipelineStages } from './pipeline.ts';
import { createPipeline } from './pipeline.ts';
import type { ComponentEnvironment, Unit } from './units.ts';
import { createUnit } from './units.ts';

/** The components of a graph. */
export type Build = {
  readonly graph: Graph;
  /** By key, in the order of their start: extensions first, receivers last. */
  readonly units: ReadonlyMap<string, Unit>;
  /** The units that were created for this build; the others were kept and run already. */
  readonly fresh: readonly Unit[];
  /** By pipeline. */
  readonly allStages: ReadonlyMap<string, PipelineStages>;
};

export type BuildOptions = {
  readonly graph: Graph;
  readonly environment: ComponentEnvironment;
  readonly edges: Edges;
  /** Scans what processors edited. */
  readonly scanner: Pick<Scanner, 'prepare'>;
  /** Components of the running graph that are kept, by key. */
  readonly kept: ReadonlyMap<string, Unit>;
  /** The stages of the running graph; they are kept if none of their components changed. */
  readonly runningStages: ReadonlyMap<string, PipelineStages>;
};

/**
 * Creates every component that is not kept, in the order of their start, and starts none. Throws
 * `ComponentError` after it has shut down the components that it created.
 */
export async function build(options: BuildOptions): Promise<Build> {
  const units = new Map<string, Unit>();
  const fresh: Unit[] = [];
  try {
    const allStages = await createAll(options, units, fresh);
    return { graph: options.graph, units, fresh, allStages };
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
): Promise<Map<string, PipelineStages>> {
  const { graph, environment, edges, scanner, kept } = options;
  const allStages = new Map<string, PipelineStages>();

  async function use<C extends Component>(
    node: Node,
    slots: () => readonly PipelineSlot[],
    create: Parameters<typeof createUnit<C>>[3],
  ): Promise<Unit<C>> {
    // A kept unit was created for the same node, so it is of the same kind.
    let unit = kept.get(node.key) as Unit<C> | undefined;
    if (unit === undefined) {
      unit = await createUnit(node, environment, slots(), create);
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
    environment.extensions.set(id, unit);
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
    for (const pipelineId of node.pipelineIds) ensureStages(pipelineId, options, units, allStages);
    const slots = node.pipelineIds.map((pipelineId) => newSlot(pipelineId, allStages));
    const unit = await use<Connector>(
      node,
      () => slots,
      (settings) => {
        const pipelines = slots.map((slot) =>
          createPipeline(slot, edges.receiver('connector', id, slot.id), scanner),
        );
        return factory.create(settings, config, pipelines);
      },
    );
    for (const slot of slots) addDependencies(unit, graph.pipelines.get(slot.id));
  }
  for (const node of graph.receivers) {
    const { factory, config, id } = node.declared;
    ensureStages(node.pipelineId, options, units, allStages);
    const slot = newSlot(node.pipelineId, allStages);
    const pipeline = createPipeline(slot, edges.receiver('receiver', id, slot.id), scanner);
    const create = (settings: Settings) => factory.create(settings, config, pipeline);
    const unit = await use(node, () => [slot], create);
    if (factory.data?.deliversToEach === true) addDependencies(unit, graph.pipelines.get(slot.id));
  }
  return allStages;
}

function none(): readonly PipelineSlot[] {
  return [];
}

/** A component that delivers to each exporter is replaced when one of them changes. */
function addDependencies(unit: Unit, plan: PipelinePlan | undefined): void {
  for (const node of [...(plan?.processors ?? []), ...(plan?.exporters ?? [])]) {
    unit.dependencies.add(node.key);
  }
}

function newSlot(id: string, allStages: ReadonlyMap<string, PipelineStages>): PipelineSlot {
  const stages = allStages.get(id);
  if (stages === undefined) throw new Error(`pipeline "${id}" was not planned`);
  return { id, stages, gate: undefined };
}

function ensureStages(
  id: string,
  { graph, edges, runningStages }: BuildOptions,
  units: ReadonlyMap<string, Unit>,
  allStages: Map<string, PipelineStages>,
): void {
  const plan = graph.pipelines.get(id);
  if (plan === undefined || allStages.has(id)) return;
  const made: PipelineStages = {
    requestSteps: plan.processors.filter(decidesOnRequests).map((node) => ({
      processor: componentOf<RequestProcessor>(units, node),
      edge: edges.processor(node.declared.id, id),
    })),
    batchSteps: plan.processors
      .filter((node) => !decidesOnRequests(node))
      .map((node) => ({
        processor: componentOf<BatchProcessor>(units, node),
        edge: edges.processor(node.declared.id, id),
      })),
    sinks: plan.exporters.map((node) => {
      const kind = node.kind === 'connector' ? 'connector' : 'exporter';
      const exporter = componentOf<Exporter>(units, node);
      return createSink(node.declared.id, exporter, edges.exporter(node.declared.id, id, kind));
    }),
    active: 0,
    onIdle: undefined,
  };
  const running = runningStages.get(id);
  allStages.set(id, running !== undefined && isSame(running, made) ? running : made);
}

function decidesOnRequests({ declared }: ProcessorNode): boolean {
  return declared.factory.data.accepts.some((kind) => kind === 'received');
}

function isSame(a: PipelineStages, b: PipelineStages): boolean {
  const componentsOf = ({ requestSteps, batchSteps, sinks }: PipelineStages): Component[] => [
    ...[...requestSteps, ...batchSteps].map(({ processor }) => processor),
    ...sinks.map(({ exporter }) => exporter),
  ];
  const others = componentsOf(b);
  const own = componentsOf(a);
  return own.length === others.length && own.every((component, i) => component === others[i]);
}

function componentOf<C extends Component>(units: ReadonlyMap<string, Unit>, node: Node): C {
  const unit = units.get(node.key);
  if (unit === undefined) throw new Error(`${node.key} is used before it is created`);
  return unit.component as C;
}
