import type { ComponentKind } from './component/component.ts';
import type { Factory } from './component/factory.ts';
import type { NamedComponent, Registry } from './config/registry.ts';

type BuiltIn = readonly [
  kind: ComponentKind,
  type: string,
  load: () => Promise<{ readonly factory: Factory }>,
];

/** Every component that is built in. A new one is its folder and a line here. */
const BUILT_IN: readonly BuiltIn[] = [
  ['extension', 'sqlite', () => import('../extensions/sqlite/factory.ts')],
  ['extension', 'file_storage', () => import('../extensions/file_storage/factory.ts')],
  ['extension', 'redis', () => import('../extensions/redis/factory.ts')],
  ['extension', 'postgres', () => import('../extensions/postgres/factory.ts')],
  ['extension', 'admin', () => import('../extensions/admin/factory.ts')],
  ['extension', 'health_check', () => import('../extensions/health_check/factory.ts')],
  ['receiver', 'native', () => import('../receivers/native/factory.ts')],
  ['receiver', 'runs', () => import('../receivers/runs/factory.ts')],
  ['receiver', 'otlp', () => import('../receivers/otlp/factory.ts')],
  ['receiver', 'bullmq', () => import('../receivers/bullmq/factory.ts')],
  ['processor', 'auth', () => import('../processors/auth/factory.ts')],
  ['processor', 'redaction', () => import('../processors/redaction/factory.ts')],
  ['processor', 'validation', () => import('../processors/validation/factory.ts')],
  ['processor', 'custom_fields', () => import('../processors/custom_fields/factory.ts')],
  ['processor', 'quotas', () => import('../processors/quotas/factory.ts')],
  ['processor', 'normalization', () => import('../processors/normalization/factory.ts')],
  ['processor', 'cost', () => import('../processors/cost/factory.ts')],
  ['processor', 'compression', () => import('../processors/compression/factory.ts')],
  ['processor', 'filter', () => import('../processors/filter/factory.ts')],
  ['connector', 'disk_queue', () => import('../connectors/disk_queue/factory.ts')],
  ['exporter', 'sqlite', () => import('../exporters/sqlite/factory.ts')],
  ['exporter', 'postgres', () => import('../exporters/postgres/factory.ts')],
  ['exporter', 'otlphttp', () => import('../exporters/otlphttp/factory.ts')],
  ['exporter', 'file', () => import('../exporters/file/factory.ts')],
  ['exporter', 'bullmq', () => import('../exporters/bullmq/factory.ts')],
  ['exporter', 'debug', () => import('../exporters/debug/factory.ts')],
];

/** The factories of all built-in components. */
export function allFactories(): Promise<Registry> {
  return loaded(BUILT_IN);
}

/**
 * The factories of named components, so that a process loads only what its configuration names. All factories if a
 * name is an alias or unknown.
 */
export function factoriesOf(names: readonly NamedComponent[]): Promise<Registry> {
  const isKnown = (name: NamedComponent) => BUILT_IN.some((one) => is(one, name));
  if (!names.every(isKnown)) return allFactories();
  return loaded(BUILT_IN.filter((one) => names.some((name) => is(one, name))));
}

function is([kind, type]: BuiltIn, name: NamedComponent): boolean {
  return kind === name.kind && type === name.type;
}

function loaded(components: readonly BuiltIn[]): Promise<Registry> {
  return Promise.all(components.map(async ([, , load]) => (await load()).factory));
}
