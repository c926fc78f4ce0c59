import { isDeepStrictEqual } from 'node:util';
import { type Capability, findOffer, type Offer, offer } from '../component/capability.ts';
import { systemClock } from '../component/clock.ts';
import type { Clock, Extension, Logger, Worker } from '../component/component.ts';
import { ONLY_WORKER } from '../component/component.ts';
import { FIRST_TOKENS, NO_TOKENS } from '../component/first-tokens.ts';
import type { FlowReport } from '../component/flow.ts';
import type { Health, HealthReport } from '../component/health.ts';
import { createHealth, HEALTH, HEALTH_REGISTRY } from '../component/health.ts';
import { PROCESS_END } from '../component/process-end.ts';
import type { ServiceConfig } from '../config/config.ts';
import type { GrpcListeners } from '../grpc/listener.ts';
import { createGrpcListeners, GRPC_LISTENERS } from '../grpc/listener.ts';
import type { Listeners } from '../http/listener.ts';
import { createListeners, LISTENERS } from '../http/listener.ts';
import { createQueues, QUEUE_REGISTRY } from '../queue/registry.ts';
import type { ProjectReads } from '../read/project-reads.ts';
import { PROJECT_READS } from '../read/project-reads.ts';
import { createReads } from '../read/reads.ts';
import { projectReads, readRoutes } from '../read/routes.ts';
import { parseEndpoint } from '../schema/fields.ts';
import { proxySettings } from '../schema/trusted-proxies.ts';
import { reportDescriptors } from '../telemetry/descriptor-report.ts';
import { createLogger, withFields } from '../telemetry/logger.ts';
import type { ServiceMetrics } from '../telemetry/metrics.ts';
import { createMetrics } from '../telemetry/metrics.ts';
import type { MetricsServer } from '../telemetry/metrics-server.ts';
import { startMetricsServer } from '../telemetry/metrics-server.ts';
import { registerProcessMetrics } from '../telemetry/process-metrics.ts';
import type { Build } from './build.ts';
import { build, discard } from './build.ts';
import type { Edges } from './edges.ts';
import { createEdges } from './edges.ts';
import { flowOf } from './flow.ts';
import type { Graph } from './graph.ts';
import { planGraph } from './graph.ts';
import { chooseKept, exchange, openGates, pipelineSlotsOf, startAll } from './reload.ts';
import type { ShutdownReport } from './shutdown.ts';
import { stopAll } from './shutdown.ts';
import type { ComponentEnvironment, Unit } from './units.ts';
import { startDeadline } from './units.ts';

export type ServiceOptions = {
  readonly config: ServiceConfig;
  /** Made from `config.service.telemetry.logs` by default. */
  readonly logger?: Logger;
  readonly clock?: Clock;
  readonly version?: string;
  /** The daemon's process that this is; by default the only one. */
  readonly worker?: Worker;
  /** Extends the service's own metrics page, e.g. by the metrics of other processes. */
  readonly metricsPage?: (own: string) => Promise<string>;
  /** Additional offers of the service to its components. */
  readonly offers?: readonly Offer[];
};

/**
 * A running configuration.
 *
 *   createService ──▶ start ──▶ (reload …) ──▶ shutdown
 */
export type Service = {
  /** Starts all components, receivers last. If one fails, all are stopped and the error names it. */
  start(): Promise<void>;
  /** Stops all components within `service.shutdown_timeout`; a second call waits for the first. */
  shutdown(): Promise<ShutdownReport>;
  /**
   * Replaces the configuration. Unchanged components keep running. Rejects if the new graph cannot be created or
   * started; the former one runs then, unless the error is a `BrokenReloadError`.
   */
  reload(config: ServiceConfig): Promise<void>;
  /** Reports a new configuration that is invalid: the running one stays, and the metric of reloads shows it. */
  reloadRefused(): void;
  health(verbose: boolean): HealthReport;
  /** Every extension that offers the capability, in the order of their start. */
  offers<T>(wanted: Capability<T>): { readonly id: string; readonly offer: T }[];
  /** The reading requests of a project, for commands. */
  readonly projectReads: ProjectReads;
  /** The addresses and routes that are served. */
  endpoints(): ReturnType<Listeners['served']>;
  /** The address of the metrics page; undefined if it is not served. */
  metricsAddress(): string | undefined;
  /** The running graph and what flowed through it. */
  flow(): FlowReport;
  /** The service's own metrics in Prometheus' text format. */
  metricsText(): Promise<string>;
};

/** A reload failed and the former configuration could not be restored: the service shuts down. */
export class BrokenReloadError extends Error {
  override readonly name = 'BrokenReloadError';
}

/** Creates a service without starting it. Throws `GraphError` and `ComponentError`. */
export async function createService(options: ServiceOptions): Promise<Service> {
  const graph = planGraph(options.config);
  const frame = createFrame(options);
  try {
    const first = await build({
      graph,
      environment: frame.environmentOf(frame.ports),
      edges: frame.edges,
      scanner: frame.ports.http.scanner,
      kept: new Map(),
      runningStages: new Map(),
    });
    return runService(frame, options.config, first);
  } catch (error) {
    await frame.close();
    throw error;
  }
}

/** The part of a service that survives reloads. */
type Frame = {
  readonly createdAt: number;
  readonly logger: Logger;
  readonly setLogLevel: (config: ServiceConfig) => void;
  readonly clock: Clock;
  readonly metrics: ServiceMetrics;
  /** The same with `metricsPage` applied. */
  readonly servedMetrics: ServiceMetrics;
  readonly health: Health;
  readonly ports: Ports;
  readonly edges: Edges;
  readonly projectReads: ProjectReads;
  close(): Promise<void>;
  /** For one graph, whose receivers bind through these listeners. */
  environmentOf(ports: Ports): ComponentEnvironment;
};

/** The listeners of receivers, by transport. */
type Ports = { readonly http: Listeners; readonly grpc: GrpcListeners };

function createFrame({
  config,
  clock = systemClock,
  version = '0',
  worker = ONLY_WORKER,
  metricsPage = async (own) => own,
  ...given
}: ServiceOptions): Frame {
  const { telemetry, limits, repeated_requests: repeats } = config.service;
  const { root, setLevel, flush } = loggerOf(given.logger, telemetry.logs);
  const logger = withFields(root, { component: 'service' });
  const metrics = createMetrics(clock);
  const health = createHealth(clock);
  const sharesPorts = worker.count > 1;
  const edges = createEdges(metrics, root, clock);
  const isAccepting = () => edges.inFlight() > 0;
  const reads = createReads({ limits, metrics, clock, isAccepting });
  const ports: Ports = {
    http: createListeners({
      ...{ logger, clock, metrics, limits, repeats, sharesPorts },
      common: ({ scanner }) => readRoutes({ reads, scanner, logger }),
    }),
    grpc: createGrpcListeners({ logger, clock, metrics, sharesPorts }),
  };
  registerProcessMetrics(metrics, clock, version);
  const endReport = reportDescriptors({ metrics, health, logger, clock });
  const commonReads = projectReads({ reads, scanner: ports.http.scanner, logger });
  // The first offer of a capability wins: given offers replace the service's own.
  const services = [
    ...(given.offers ?? []),
    offer(HEALTH, health),
    offer(HEALTH_REGISTRY, health),
    offer(QUEUE_REGISTRY, createQueues()),
    offer(PROCESS_END, { end() {} }),
    offer(FIRST_TOKENS, NO_TOKENS),
    offer(PROJECT_READS, commonReads),
  ];
  return {
    createdAt: clock.now(),
    logger,
    setLogLevel: (next) => setLevel(next.service.telemetry.logs.level),
    clock,
    metrics,
    servedMetrics: {
      ...metrics,
      text: async () => metricsPage(await metrics.text()),
    },
    health,
    ports,
    edges,
    projectReads: commonReads,
    async close() {
      ports.grpc.close();
      await ports.http.close();
      reads.close();
      endReport();
      await flush();
    },
    environmentOf: ({ http, grpc }) => ({
      logger: root,
      clock,
      metrics,
      health,
      worker,
      services: [...services, offer(LISTENERS, http), offer(GRPC_LISTENERS, grpc)],
      extensions: new Map<string, Unit<Extension>>(),
    }),
  };
}

type ServiceLogger = Pick<ReturnType<typeof createLogger>, 'setLevel' | 'flush'> & {
  readonly root: Logger;
};

/** A given logger has its own level, and its owner flushes it. */
function loggerOf(
  given: Logger | undefined,
  logs: ServiceConfig['service']['telemetry']['logs'],
): ServiceLogger {
  if (given !== undefined) return { root: given, setLevel() {}, async flush() {} };
  const root = createLogger(logs);
  return { root, setLevel: (level) => root.setLevel(level), flush: () => root.flush() };
}

/** A service between two reloads. */
type State = {
  readonly frame: Frame;
  config: ServiceConfig;
  running: Build;
  metricsServer: MetricsServer | undefined;
  isReloadGood: boolean;
};

function runService(frame: Frame, config: ServiceConfig, running: Build): Service {
  const state: State = { frame, config, running, metricsServer: undefined, isReloadGood: true };
  let stopping: Promise<ShutdownReport> | undefined;
  let reloading: Promise<void> = Promise.resolve();
  frame.metrics.gauge(
    'tracectl_config_reload_success',
    '1 while the newest configuration runs, 0 after a failed reload.',
    () => [{ value: state.isReloadGood ? 1 : 0 }],
  );

  function shutdownOnce(): Promise<ShutdownReport> {
    stopping ??= reloading.catch(() => {}).then(() => shutdown(state));
    return stopping;
  }

  async function reloadNext(next: ServiceConfig): Promise<void> {
    if (stopping !== undefined || frame.health.phase !== 'running') {
      throw new Error('only a running service can be reloaded');
    }
    await reload(state, next);
  }

  return {
    start: () => start(state),
    shutdown: shutdownOnce,
    reload(next) {
      reloading = reloading.catch(() => {}).then(() => reloadNext(next));
      reloading.catch((error: unknown) => {
        if (error instanceof BrokenReloadError) void shutdownOnce();
      });
      return reloading;
    },
    reloadRefused() {
      state.isReloadGood = false;
    },
    health: (verbose) => frame.health.report(verbose),
    offers: (wanted) => offersOf(state.running, wanted),
    projectReads: frame.projectReads,
    endpoints: () => [...frame.ports.http.served(), ...frame.ports.grpc.served()],
    metricsAddress: () => state.metricsServer?.address,
    flow: () => flowOf(state.running.graph, frame.metrics, frame.createdAt),
    metricsText: () => frame.metrics.text(),
  };
}

async function start(state: State): Promise<void> {
  const { frame, config, running } = state;
  const { logger, health, servedMetrics: metrics, clock } = frame;
  const deadline = startDeadline(clock, config.service.shutdown_timeout);
  try {
    state.metricsServer = await openMetrics(config, metrics, logger, clock);
    await startAll(running.fresh, deadline, logger);
  } catch (error) {
    await discard(running.fresh.filter((unit) => unit.state === 'created'));
    await close(state);
    health.enter('stopped');
    throw error;
  } finally {
    deadline.cancel();
  }
  health.enter('running');
  // The Collector's words, which operators and scripts wait for.
  const ready = 'Everything is ready. Begin running and processing data.';
  logger.info({ pipelines: running.allStages.size }, ready);
}

async function shutdown(state: State): Promise<ShutdownReport> {
  const { frame, running, config } = state;
  const { edges, health, clock, logger } = frame;
  health.enter('stopping');
  const units = [...running.units.values()];
  const timeout = config.service.shutdown_timeout;
  const report = await stopAll({ units, edges, health, clock, logger, timeout });
  health.enter('stopped');
  logger.info(report, 'Service shut down');
  await close(state);
  return report;
}

async function close(state: State): Promise<void> {
  await state.metricsServer?.close();
  state.metricsServer = undefined;
  await state.frame.close();
}

async function reload(state: State, next: ServiceConfig): Promise<void> {
  const { frame, config } = state;
  const { logger } = frame;
  try {
    const timeout = config.service.shutdown_timeout;
    const { build, failure } = await replace(frame, state.running, next, timeout);
    state.running = build;
    if (failure !== undefined) throw failure;
  } catch (error) {
    state.isReloadGood = false;
    logger.error({ err: error }, 'Reload failed; new configuration not applied');
    throw error;
  }
  warnOfFixed(config, next, logger);
  frame.setLogLevel(next);
  state.config = next;
  state.isReloadGood = true;
  logger.info({ pipelines: state.running.allStages.size }, 'Configuration reloaded');
}

/** The graph that runs after a reload; `failure` if it is the former one. */
type Replaced = { readonly build: Build; readonly failure: unknown };

/**
 * Rejects if the next graph cannot be created; the running one is untouched then. If the next graph cannot be
 * started, the former one is restored. Rejects with `BrokenReloadError` if that fails, too.
 */
async function replace(
  frame: Frame,
  running: Build,
  next: ServiceConfig,
  timeout: number,
): Promise<Replaced> {
  const { clock, logger, ports, edges } = frame;
  const remake = (graph: Graph) =>
    build({
      graph,
      environment: frame.environmentOf({
        http: ports.http.nextGraph(),
        grpc: ports.grpc.nextGraph(),
      }),
      edges,
      scanner: ports.http.scanner,
      kept: chooseKept(running, graph),
      runningStages: running.allStages,
    });
  const built = await remake(planGraph(next));
  try {
    await exchange({ running, next: built, clock, logger, timeout });
    ports.http.forgetClosed();
    return { build: built, failure: undefined };
  } catch (failure) {
    logger.warn({ err: failure }, 'Restoring the former configuration');
    try {
      const restored = await remake(running.graph);
      await exchange({ running, next: restored, clock, logger, timeout });
      ports.http.forgetClosed();
      return { build: restored, failure };
    } catch (error) {
      openGates(pipelineSlotsOf(running));
      throw new BrokenReloadError('the former configuration could not be started again either', {
        cause: new AggregateError([failure, error]),
      });
    }
  }
}

async function openMetrics(
  config: ServiceConfig,
  metrics: ServiceMetrics,
  logger: Logger,
  clock: Clock,
): Promise<MetricsServer | undefined> {
  const { level, address, addressIsConfigured, allowed_hosts, tls, ...proxies } =
    config.service.telemetry.metrics;
  if (level === 'none') return undefined;
  const endpoint = parseEndpoint(address);
  if (endpoint === undefined) throw new Error(`service.telemetry.metrics.address: ${address}`);
  return startMetricsServer({
    ...{ metrics, endpoint, isConfigured: addressIsConfigured, logger, clock, tls },
    allowedHosts: allowed_hosts,
    proxies: proxySettings(proxies),
  });
}

/** Warns about changed settings that only a restart applies. */
function warnOfFixed(before: ServiceConfig, after: ServiceConfig, logger: Logger): void {
  const fixed = ({ service }: ServiceConfig) => ({
    'telemetry.logs.encoding': service.telemetry.logs.encoding,
    'telemetry.logs.repeated_lines': service.telemetry.logs.repeated_lines,
    'telemetry.metrics': service.telemetry.metrics,
    limits: service.limits,
    repeated_requests: service.repeated_requests,
    workers: service.workers,
  });
  const was = fixed(before);
  for (const [setting, value] of Object.entries(fixed(after))) {
    if (isDeepStrictEqual(value, was[setting as keyof typeof was])) continue;
    logger.warn({ setting: `service.${setting}` }, 'Setting changes only with a restart');
  }
}

function offersOf<T>(running: Build, wanted: Capability<T>): { id: string; offer: T }[] {
  return running.graph.extensions.flatMap(({ key, declared }) => {
    const unit = running.units.get(key) as Unit<Extension> | undefined;
    const found = unit && findOffer(unit.component.offers, wanted);
    return found === undefined ? [] : [{ id: declared.id, offer: found }];
  });
}
