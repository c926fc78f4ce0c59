import type { ComponentKind } from '../component/component.ts';
import type { Factory } from '../component/factory.ts';

/** A component as a configuration names it. */
export type NamedComponent = { readonly kind: ComponentKind; readonly type: string };

/** The components that a configuration can name. */
export type Registry = readonly Factory[];

/** The sections of a configuration that declare components, in the order they are read and printed. */
export const SECTIONS = {
  extensions: 'extension',
  receivers: 'receiver',
  processors: 'processor',
  connectors: 'connector',
  exporters: 'exporter',
} as const satisfies Record<string, ComponentKind>;
export type SectionName = keyof typeof SECTIONS;

/** The factory of a kind for a type or one of its aliases. */
export function factoryFor<K extends ComponentKind>(
  registry: Registry,
  kind: K,
  type: string,
): Extract<Factory, { kind: K }> | undefined {
  const found = registry.find(
    (factory) =>
      factory.kind === kind && (factory.type === type || factory.aliases?.includes(type) === true),
  );
  return found as Extract<Factory, { kind: K }> | undefined;
}

/** Types of a kind, for messages. */
export function typesOf(registry: Registry, kind: ComponentKind): string[] {
  return registry.filter((factory) => factory.kind === kind).map((factory) => factory.type);
}
