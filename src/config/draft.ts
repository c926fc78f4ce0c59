import type { ComponentKind } from '../component/component.ts';
import type { Factory } from '../component/factory.ts';
import type { Declared, Issue, PipelineConfig } from './config.ts';
import type { Registry } from './registry.ts';
import type { ServiceSection } from './service-schema.ts';
import type { ConfigNode, Path } from './tree.ts';

/** What the checks need to know of a configuration, and where they report. */
export type Draft = {
  readonly root: ConfigNode;
  readonly registry: Registry;
  readonly receivers: Components<'receiver'>;
  readonly processors: Components<'processor'>;
  readonly exporters: Components<'exporter'>;
  readonly connectors: Components<'connector'>;
  readonly extensions: Components<'extension'>;
  readonly service: ServiceSection;
  /** False where a part of `service` could not be read: what nobody names may be named there. */
  readonly isServiceSound: boolean;
  /** Pipelines whose id and references could be read. */
  readonly pipelines: readonly PipelineConfig[];
  report(severity: Issue['severity'], path: Path, message: string): void;
};

/** A declared component whose settings are wrong still counts as declared; its config is undefined. */
export type Components<K extends ComponentKind> = ReadonlyMap<
  string,
  Declared<Extract<Factory, { kind: K }>>
>;
