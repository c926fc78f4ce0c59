import type {
  ConnectorFactory,
  ExporterFactory,
  ExtensionFactory,
  ProcessorFactory,
  ReceiverFactory,
} from '../component/factory.ts';
import type { ServerTls } from '../schema/server-tls.ts';
import type { ServiceSection } from './service-schema.ts';

/** A component of the configuration: its factory, and its settings with all defaults filled in. */
export type Declared<F> = { readonly id: string; readonly factory: F; readonly config: unknown };

export type PipelineConfig = {
  readonly id: string;
  readonly receivers: readonly string[];
  readonly processors: readonly string[];
  readonly exporters: readonly string[];
};

/** A whole configuration, expanded and valid; the engine runs it. */
export type ServiceConfig = {
  readonly receivers: ReadonlyMap<string, Declared<ReceiverFactory>>;
  readonly processors: ReadonlyMap<string, Declared<ProcessorFactory>>;
  readonly exporters: ReadonlyMap<string, Declared<ExporterFactory>>;
  readonly connectors: ReadonlyMap<string, Declared<ConnectorFactory>>;
  readonly extensions: ReadonlyMap<string, Declared<ExtensionFactory>>;
  readonly service: {
    /** In the order they are started. */
    readonly extensions: readonly string[];
    readonly pipelines: readonly PipelineConfig[];
    readonly telemetry: {
      readonly logs: {
        readonly level: 'debug' | 'info' | 'warn' | 'error';
        readonly encoding: 'console' | 'json';
        /** Lines of one component and text in 10 s. */
        readonly repeated_lines: number;
      };
      readonly metrics: {
        readonly level: 'none' | 'normal';
        readonly address: string;
        /** The file names the address: a failure to bind it is an error, not a warning. */
        readonly addressIsConfigured: boolean;
        readonly allowed_hosts: readonly string[];
        readonly trusted_proxies: readonly string[];
        readonly proxy_protocol: boolean;
        readonly tls?: ServerTls | undefined;
      };
    };
    /** Number of worker processes; `auto` is one per core. */
    readonly workers: number | 'auto';
    readonly limits: ServiceSection['limits'];
    readonly repeated_requests: {
      readonly enabled: boolean;
      /** Milliseconds. */
      readonly window: number;
      readonly max_entries: number;
    };
    /** Milliseconds. */
    readonly shutdown_timeout: number;
  };
};

/** A problem in a configuration. */
export type Issue = {
  readonly severity: 'error' | 'warning';
  /** `config.yaml:12:5`; undefined for a value of `--set`, or a missing one. */
  readonly at: string | undefined;
  /** `receivers.otlp.protocols.http.endpoint` */
  readonly path: string;
  /** The problem, the allowed values, and the value that was probably intended. */
  readonly message: string;
};
