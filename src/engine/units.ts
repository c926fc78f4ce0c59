import { type Capability, findOffer, type Offer, offer } from '../component/capability.ts';
import type {
  Clock,
  Component,
  Extension,
  Host,
  Logger,
  Metrics,
  Settings,
  Worker,
} from '../component/component.ts';
import type { Health, HealthRegistry } from '../component/health.ts';
import { HEALTH_REGISTRY } from '../component/health.ts';
import { withFields } from '../telemetry/logger.ts';
import { labelled } from '../telemetry/metrics.ts';
import type { Node } from './graph.ts';
import type { PipelineSlot } from './pipeline.ts';

/** A component of the running service. */
export type Unit<C extends Component = Component> = {
  readonly node: Node;
  readonly component: C;
  /** Keys of the components whose replacement replaces this one. */
  readonly dependencies: Set<string>;
  /** The pipelines behind it, if it is a receiver or connector. */
  readonly slots: readonly PipelineSlot[];
  /** Removes its gauges and its entry in the health report. */
  forget(): void;
  /** The failures that the health of the service reports. A component that stops slowly may wait for another one. */
  troubles(): readonly string[];
  state: 'created' | 'started' | 'stopped';
};

/** The environment of all components of one graph. */
export type ComponentEnvironment = {
  readonly logger: Logger;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly health: Health;
  readonly worker: Worker;
  /** The offers of the service. */
  readonly services: readonly Offer[];
  /** Extensions by id; filled while the graph is built. */
  readonly extensions: Map<string, Unit<Extension>>;
};

/** A component could not be created or started. The message names it. */
class ComponentError extends Error {
  override readonly name = 'ComponentError';
  readonly componentId: string;

  constructor(doing: 'create' | 'start', node: Node, cause: unknown) {
    super(`cannot ${doing} ${describe(node)}: ${messageOf(cause)}`, { cause });
    this.componentId = node.declared.id;
  }
}

/** `exporter "file"`, as logs and errors name a component. */
export function describe(node: Node): string {
  return `${node.kind} "${node.declared.id}"`;
}

/** Throws `ComponentError`. */
export async function createUnit<C extends Component>(
  node: Node,
  environment: ComponentEnvironment,
  slots: readonly PipelineSlot[],
  create: (settings: Settings) => C | Promise<C>,
): Promise<Unit<C>> {
  const dependencies = new Set<string>();
  const removers: (() => void)[] = [];
  const { id } = node.declared;
  const settings: Settings = {
    id,
    kind: node.kind,
    logger: withFields(environment.logger, { component: id, kind: node.kind }),
    clock: environment.clock,
    metrics: ownMetrics(labelled(environment.metrics, { [node.kind]: id }), removers),
    host: hostFor(node, environment, dependencies, removers),
    worker: environment.worker,
  };
  const forget = () => {
    for (const remove of removers.splice(0)) remove();
  };
  try {
    const component = await create(settings);
    const troubles = () => troublesOf(environment.health);
    return { node, component, dependencies, slots, forget, troubles, state: 'created' };
  } catch (error) {
    forget();
    throw new ComponentError('create', node, error);
  }
}

function troublesOf(health: Health): readonly string[] {
  return health
    .report(false)
    .components.flatMap(({ id, message }) => (message === undefined ? [] : [`${id}: ${message}`]));
}

export async function startUnit(unit: Unit): Promise<void> {
  try {
    await unit.component.start();
    unit.state = 'started';
  } catch (error) {
    throw new ComponentError('start', unit.node, error);
  }
}

/**
 * Stops a component, once. Resolves with whether it stopped before the deadline. Never rejects: an error is
 * logged.
 */
export async function stopUnit(unit: Unit, deadline: Deadline, logger: Logger): Promise<boolean> {
  if (unit.state === 'stopped') return true;
  unit.state = 'stopped';
  const { kind, declared } = unit.node;
  const about = () => ({ component: declared.id, kind, unhealthy: unit.troubles() });
  const cancelNotice = deadline.whenLate(() => logger.warn(about(), 'Stop waits for component'));
  let isStopped = false;
  try {
    isStopped = await Promise.race([
      unit.component.shutdown(deadline.signal).then(() => true),
      deadline.passed.then(() => false),
    ]);
  } catch (error) {
    logger.error({ component: declared.id, kind, err: error }, 'Component failed to shut down');
    isStopped = true;
  }
  cancelNotice();
  if (!isStopped) logger.error(about(), 'Component did not shut down in time');
  unit.forget();
  return isStopped;
}

/** The deadline of a shutdown. A component that ignores the signal is abandoned when `passed` resolves. */
export type Deadline = {
  readonly signal: AbortSignal;
  /** Resolves a moment after the signal. */
  readonly passed: Promise<void>;
  /** Calls the listener if a component takes long. Returns a function that cancels it. */
  whenLate(listener: () => void): () => void;
  cancel(): void;
};

/** Time after the signal for components to abort their work. */
const GRACE_MS = 1_000;
/** Longer than a component takes whose servers answer. */
const LATE_MS = 3_000;

export function startDeadline(clock: Clock, ms: number): Deadline {
  const abort = new AbortController();
  const { promise: passed, resolve } = Promise.withResolvers<void>();
  let cancel = clock.after(ms, () => {
    abort.abort(new Error('the shutdown deadline passed'));
    cancel = clock.after(GRACE_MS, resolve);
  });
  const whenLate = (listener: () => void) => clock.after(LATE_MS, listener);
  return { signal: abort.signal, passed, whenLate, cancel: () => cancel() };
}

function ownMetrics(metrics: Metrics, removers: (() => void)[]): Metrics {
  return {
    counter: metrics.counter,
    histogram: metrics.histogram,
    gauge(name, description, read) {
      const remove = metrics.gauge(name, description, read);
      removers.push(remove);
      return remove;
    },
  };
}

function hostFor(
  node: Node,
  environment: ComponentEnvironment,
  dependencies: Set<string>,
  removers: (() => void)[],
): Host {
  const registry: HealthRegistry = {
    register(componentId, read) {
      const remove = environment.health.register(componentId, read);
      removers.push(remove);
      return remove;
    },
  };
  const services = [offer(HEALTH_REGISTRY, registry), ...environment.services];
  return {
    extension<T>(id: string, wanted: Capability<T>): T {
      const found = environment.extensions.get(id);
      if (found === undefined) {
        throw new Error(`${describe(node)} needs the extension "${id}", which is not running`);
      }
      dependencies.add(found.node.key);
      const value = findOffer(found.component.offers, wanted);
      if (value === undefined) throw new Error(`extension "${id}" offers no ${wanted.name}`);
      return value;
    },
    service<T>(wanted: Capability<T>): T {
      const found = findOffer(services, wanted);
      if (found === undefined) throw new Error(`the service offers no ${wanted.name}`);
      return found;
    },
  };
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
