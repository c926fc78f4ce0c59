import type { z } from 'zod';
import type { Capability } from './capability.ts';
import type {
  BatchProcessor,
  ComponentKind,
  Connector,
  DurableKind,
  Exporter,
  Extension,
  Pipeline,
  Receiver,
  RequestProcessor,
  Settings,
} from './component.ts';

/**
 * Every component folder exports a `factory`: everything that `validate`, the engine and the reference pages
 * know about a component before it runs. The flags are grouped by the question that they answer:
 * `data` (what flows in and out), `tenancy` (whose data it is), `placement` (which processes run it).
 */
export type Factory =
  | ReceiverFactory
  | ProcessorFactory
  | ExporterFactory
  | ConnectorFactory
  | ExtensionFactory;

type Stability = 'development' | 'alpha' | 'beta' | 'stable';

type FactoryBase<Kind extends ComponentKind, Schema extends z.ZodType> = {
  readonly kind: Kind;
  /** The type in the configuration, and the folder's name. */
  readonly type: string;
  /** Other names for the type in a configuration. */
  readonly aliases?: readonly string[];
  readonly stability: Stability;
  /** One sentence without a final stop, for `tracectl components` and the reference pages. */
  readonly description: string;
  /** The single source for validation, defaults, JSON Schema and reference pages. */
  readonly config: Schema;
  /** A capability that a named extension must offer, in addition to that of the field. */
  needs?(config: z.output<Schema>): Need | undefined;
  readonly placement?: Placement<z.output<Schema>>;
};

type Placement<Config> = {
  /**
   * Why the component, as configured, cannot run in several processes (`service.workers`): a clause without
   * a final stop. Undefined if it can.
   */
  oneProcess?(config: Config): string | undefined;
};

export type ReceiverFactory<Schema extends z.ZodType = z.ZodType> = FactoryBase<
  'receiver',
  Schema
> & {
  readonly data?: {
    /** It delivers to each exporter of its pipeline separately, so a change among them restarts it. */
    readonly deliversToEach?: boolean;
    /** Several requests may describe one observation. */
    readonly receivesEvents?: boolean;
  };
  readonly tenancy?: {
    /** `config.project` can name the tenant in a pipeline without `auth`. */
    readonly hasProject?: boolean;
  };
  create(
    settings: Settings,
    config: z.output<Schema>,
    pipeline: Pipeline,
  ): Receiver | Promise<Receiver>;
};

export type ProcessorFactory<
  Schema extends z.ZodType = z.ZodType,
  Accepted extends DurableKind = DurableKind,
> = FactoryBase<'processor', Schema> & {
  readonly data: {
    /** It reserves the usage of a received batch, so every processor that may change the batch comes before it. */
    readonly reservesUsage?: boolean;
  };
  readonly tenancy?: {
    /** It names the tenant. */
    readonly authenticates?: boolean;
    /** The projects that it may name; `any` if the configuration does not list them. */
    projects?(config: z.output<Schema>): readonly string[] | 'any';
  };
} & (RequestProcessing<z.output<Schema>> | BatchProcessing<z.output<Schema>, Accepted>);

/** It decides on requests, so it comes before every processor that accepts another kind. */
type RequestProcessing<Config> = {
  readonly data: { readonly accepts: readonly ['received']; readonly emits: 'same' };
  create(settings: Settings, config: Config): RequestProcessor | Promise<RequestProcessor>;
};

type BatchProcessing<Config, Accepted extends DurableKind> = {
  readonly data: {
    readonly accepts: readonly Accepted[];
    /** The kind that it passes on; `same` is the kind that it received. */
    readonly emits: DurableKind | 'same';
  };
  create(
    settings: Settings,
    config: Config,
  ): BatchProcessor<Accepted> | Promise<BatchProcessor<Accepted>>;
};

export type ExporterFactory<
  Schema extends z.ZodType = z.ZodType,
  Accepted extends DurableKind = DurableKind,
> = FactoryBase<'exporter', Schema> & {
  readonly data: {
    readonly accepts: readonly Accepted[];
    /** The subset of `accepts` that it takes as configured, if the configuration makes a difference. */
    acceptsAs?(config: z.output<Schema>): readonly DurableKind[];
    /** It joins the events of one observation in the memory of its process. */
    joinsEvents?(config: z.output<Schema>): boolean;
  };
  readonly tenancy?: {
    /**
     * If everything that it sends becomes one project at the destination: the field that permits this.
     * Undefined if projects remain separate, or if the field is set.
     */
    mixesProjects?(config: z.output<Schema>): string | undefined;
  };
  create(
    settings: Settings,
    config: z.output<Schema>,
  ): Exporter<Accepted> | Promise<Exporter<Accepted>>;
};

export type ConnectorFactory<
  Schema extends z.ZodType = z.ZodType,
  Accepted extends DurableKind = DurableKind,
> = FactoryBase<'connector', Schema> & {
  readonly data: {
    readonly accepts: readonly Accepted[];
    /** The kind that it passes on; `same` is the kind that it received. */
    readonly emits: DurableKind | 'same';
  };
  /** `pipelines` are the pipelines that name it as their receiver. */
  create(
    settings: Settings,
    config: z.output<Schema>,
    pipelines: readonly Pipeline[],
  ): Connector<Accepted> | Promise<Connector<Accepted>>;
};

export type ExtensionFactory<Schema extends z.ZodType = z.ZodType> = FactoryBase<
  'extension',
  Schema
> & {
  readonly provides: readonly Capability<unknown>[];
  /** The data directory that it owns, for commands that look for a running daemon. */
  dataDirectory?(config: z.output<Schema>): string;
  readonly placement?: Placement<z.output<Schema>> & {
    /**
     * With several workers: every worker runs it (if left out), only the first one, or the process that
     * supervises them, which runs no extension that it could refer to.
     */
    readonly runsIn?: 'first' | 'supervisor';
  };
  create(settings: Settings, config: z.output<Schema>): Extension | Promise<Extension>;
};

type Need = {
  /** Id of the other extension. */
  readonly extension: string;
  readonly capability: Capability<unknown>;
  /** The field that would make it unnecessary. */
  readonly field: string;
  /** The issue to report if the extension does not offer it. */
  readonly message: string;
  /** Without it only a part of the component works: `validate` warns. */
  readonly isOptional?: boolean;
};

/**
 * Each `define…` infers the schema's type, so that `create` and the flags get a typed configuration. The
 * engine calls them with values that `config` has parsed, so the common form may widen the parameter.
 */
export function defineReceiver<S extends z.ZodType>(factory: ReceiverFactory<S>): ReceiverFactory {
  return factory;
}
export function defineProcessor<S extends z.ZodType, Accepted extends DurableKind>(
  factory: ProcessorFactory<S, Accepted>,
): ProcessorFactory {
  return factory;
}
export function defineExporter<S extends z.ZodType, Accepted extends DurableKind>(
  factory: ExporterFactory<S, Accepted>,
): ExporterFactory {
  return factory;
}
export function defineConnector<S extends z.ZodType, Accepted extends DurableKind>(
  factory: ConnectorFactory<S, Accepted>,
): ConnectorFactory {
  return factory;
}
export function defineExtension<S extends z.ZodType>(
  factory: ExtensionFactory<S>,
): ExtensionFactory {
  return factory;
}
