import { z } from 'zod';
import type { Offer } from '../../src/component/capability.ts';
import type {
  BatchProcessor,
  Exporter,
  Pipeline,
  RequestProcessor,
  Settings,
} from '../../src/component/component.ts';
import type {
  ConnectorFactory,
  ExporterFactory,
  ExtensionFactory,
  ProcessorFactory,
  ReceiverFactory,
} from '../../src/component/factory.ts';
import {
  defineConnector,
  defineExporter,
  defineExtension,
  defineProcessor,
  defineReceiver,
} from '../../src/component/factory.ts';
import type { Declared, PipelineConfig, ServiceConfig } from '../../src/config/config.ts';
import { READ_LIMITS } from './http.ts';

/** Components for tests of the engine: they note what happens to them in `events`. */
export type FakeParts = {
  /** `start otlp`, `shutdown file`, in order, over all of them. */
  readonly events: string[];
  /** The pipeline each receiver or connector was created with, newest last. */
  readonly pipelines: Map<string, Pipeline[]>;
  readonly settings: Map<string, Settings>;
  receiver(
    id: string,
    more?: Partial<ReceiverFactory>,
    config?: unknown,
  ): Declared<ReceiverFactory>;
  /** A processor of requests. */
  processor(
    id: string,
    parts?: Partial<RequestProcessor>,
    tenancy?: ProcessorFactory['tenancy'],
    config?: unknown,
  ): Declared<ProcessorFactory>;
  /** A processor of sealed data. */
  batchProcessor(
    id: string,
    process: BatchProcessor['process'],
    emits?: 'observations' | 'same',
  ): Declared<ProcessorFactory>;
  exporter(id: string, parts?: Partial<Exporter>, config?: unknown): Declared<ExporterFactory>;
  connector(id: string, parts?: Partial<Exporter>, config?: unknown): Declared<ConnectorFactory>;
  extension(id: string, offers?: readonly Offer[], config?: unknown): Declared<ExtensionFactory>;
};

type Life = { start(): Promise<void>; shutdown(deadline: AbortSignal): Promise<void> };

export function fakeParts(): FakeParts {
  const events: string[] = [];
  const pipelines = new Map<string, Pipeline[]>();
  const settings = new Map<string, Settings>();
  // Factories stand for the type: a component declared again is declared with the same one.
  const factories = new Map<string, unknown>();

  function life(id: string): Life {
    return {
      async start() {
        events.push(`start ${id}`);
      },
      async shutdown() {
        events.push(`shutdown ${id}`);
      },
    };
  }

  function known<F>(key: string, make: () => F): F {
    const factory = (factories.get(key) ?? make()) as F;
    factories.set(key, factory);
    return factory;
  }

  const common = { stability: 'development', description: 'fake', config: z.unknown() } as const;
  const behaviours = new Map<string, object>();

  return {
    events,
    pipelines,
    settings,
    receiver: (id, more = {}, config = {}) => ({
      id,
      config,
      factory: known(`receiver ${id}`, () =>
        defineReceiver({
          ...common,
          kind: 'receiver',
          type: id,
          create(given, _config, pipeline) {
            settings.set(id, given);
            pipelines.set(id, [...(pipelines.get(id) ?? []), pipeline]);
            return life(id);
          },
          ...more,
        }),
      ),
    }),
    processor(id, parts = {}, tenancy = {}, config = {}) {
      behaviours.set(id, parts);
      const factory = known(`processor ${id}`, () =>
        defineProcessor({
          ...common,
          kind: 'processor',
          type: id,
          data: { accepts: ['received'], emits: 'same' },
          tenancy,
          create(given) {
            settings.set(id, given);
            return { ...life(id), ...behaviours.get(id) };
          },
        }),
      );
      return { id, config, factory };
    },
    batchProcessor: (id, process, emits = 'same') => ({
      id,
      config: {},
      factory: known(`processor ${id}`, () =>
        defineProcessor({
          ...common,
          kind: 'processor',
          type: id,
          data: { accepts: ['raw', 'observations'], emits },
          create(given) {
            settings.set(id, given);
            return { ...life(id), process };
          },
        }),
      ),
    }),
    exporter(id, parts = {}, config = {}) {
      behaviours.set(id, parts);
      const factory = known(`exporter ${id}`, () =>
        defineExporter({
          ...common,
          kind: 'exporter',
          type: id,
          data: { accepts: ['raw', 'observations'] },
          create(given) {
            settings.set(id, given);
            return { ...life(id), consume: async () => {}, ...behaviours.get(id) };
          },
        }),
      );
      return { id, config, factory };
    },
    connector(id, parts = {}, config = {}) {
      behaviours.set(id, parts);
      const factory = known(`connector ${id}`, () =>
        defineConnector({
          ...common,
          kind: 'connector',
          type: id,
          data: { accepts: ['raw'], emits: 'same' },
          create(given, _config, fed) {
            settings.set(id, given);
            pipelines.set(id, [...(pipelines.get(id) ?? []), ...fed]);
            return { ...life(id), consume: async () => {}, ...behaviours.get(id) };
          },
        }),
      );
      return { id, config, factory };
    },
    extension: (id, offers = [], config = {}) => ({
      id,
      config,
      factory: known(`extension ${id}`, () =>
        defineExtension({
          ...common,
          kind: 'extension',
          type: id,
          provides: offers.map(({ capability }) => capability),
          create(given) {
            settings.set(id, given);
            return { ...life(id), offers };
          },
        }),
      ),
    }),
  };
}

/** A whole configuration from declared components and `receivers > processors > exporters` pipelines. */
export function serviceConfig(
  declared: {
    receivers?: readonly Declared<ReceiverFactory>[];
    processors?: readonly Declared<ProcessorFactory>[];
    exporters?: readonly Declared<ExporterFactory>[];
    connectors?: readonly Declared<ConnectorFactory>[];
    extensions?: readonly Declared<ExtensionFactory>[];
  },
  pipelines: Readonly<Record<string, string>>,
  shutdownTimeout = 20_000,
): ServiceConfig {
  const byId = <F>(list: readonly Declared<F>[] = []) =>
    new Map(list.map((each) => [each.id, each]));
  return {
    receivers: byId(declared.receivers),
    processors: byId(declared.processors),
    exporters: byId(declared.exporters),
    connectors: byId(declared.connectors),
    extensions: byId(declared.extensions),
    service: {
      extensions: (declared.extensions ?? []).map(({ id }) => id),
      pipelines: Object.entries(pipelines).map(([id, text]) => pipelineOf(id, text)),
      telemetry: {
        logs: { level: 'error', encoding: 'json', repeated_lines: 100 },
        metrics: {
          ...{ level: 'none', address: '127.0.0.1:8888', addressIsConfigured: false },
          allowed_hosts: [],
          trusted_proxies: [],
          proxy_protocol: false,
        },
      },
      workers: 1,
      limits: {
        in_flight_bytes: 64 * 1_048_576,
        client_share: 0.25,
        client_reserve: 0.125,
        requests_per_key: 1024,
        ...READ_LIMITS,
      },
      repeated_requests: { enabled: true, window: 600_000, max_entries: 1_000_000 },
      shutdown_timeout: shutdownTimeout,
    },
  };
}

function pipelineOf(id: string, text: string): PipelineConfig {
  const [receivers = [], processors = [], exporters = []] = text
    .split('>')
    .map((part) => part.split(' ').filter((word) => word !== ''));
  return { id, receivers, processors, exporters };
}
