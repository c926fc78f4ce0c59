import type { ComponentKind } from '../component/component.ts';
import type { Factory } from '../component/factory.ts';
import type { Declared, Issue, PipelineConfig } from './config.ts';
import type { Registry } from './registry.ts';
import type { ServiceSection } from './service-schema.ts';
import type { ConfigNode, Path } from './tree.ts';

/** The configuration under check, and the function that reports its problems. */
export type Draft = {
  readonly root: ConfigNode;
  readonly registry: Registry;
  readonly receivers: Components<'receiver'>;
  readonly processors: Components<'processor'>;
  readonly exporters: Components<'exporter'>;
  readonly connectors: Components<'connector'>;
  readonly extensions: Components<'extension'>;
  readonly service: ServiceSection;
  /** False if a part of `service` is invalid: components that seem unused may be named there. */
  readonly isServiceSound: boolean;
  /** Pipelines with a readable id and readable references. */
  readonly pipelines: readonly PipelineConfig[];
  report(severity: Issue['severity'], path: Path, message: string): void;
};

/** A component with invalid settings still counts as declared; its config is undefined. */
export type Components<K extends ComponentKind> = ReadonlyMap<
  string,
  Declared<Extract<Factory, { kind: K }>>
>;
