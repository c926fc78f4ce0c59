import { stringify } from 'yaml';
import { factoryFor, type Registry, SECTIONS, type SectionName } from './registry.ts';
import { serviceSchema } from './service-schema.ts';
import { acceptsSection, marksOf, schemaAt, withDefaults } from './shape.ts';
import { type ConfigNode, isNull, type Path, REDACTED, withoutCredentials } from './tree.ts';

/**
 * The configuration in force: merged, expanded and with every default, in a form that can be read again. Secrets, credentials
 * in URLs, and values from the environment or a file are `[REDACTED]`.
 */
export function printable(root: ConfigNode, registry: Registry): Record<string, unknown> {
  const printed: Record<string, unknown> = {};
  if (root.kind !== 'map') return printed;
  for (const [section, { value }] of root.entries) {
    if (section in SECTIONS && value.kind === 'map') {
      const components: Record<string, unknown> = {};
      for (const [id, entry] of value.entries) {
        const kind = SECTIONS[section as SectionName];
        const schema = factoryFor(registry, kind, id.split('/')[0] ?? '')?.config;
        const shown = isNull(entry.value) ? {} : shownOf(entry.value, schema, []);
        components[id] = schema === undefined ? shown : withDefaults(schema, shown);
      }
      printed[section] = components;
    } else if (section === 'service') {
      printed[section] = withDefaults(serviceSchema, shownOf(value, serviceSchema, []));
    } else {
      printed[section] = shownOf(value, undefined, []);
    }
  }
  return printed;
}

export function toYaml(printed: Record<string, unknown>): string {
  return stringify(printed, { lineWidth: 0 });
}

type Schema = ReturnType<typeof schemaAt>;

function shownOf(node: ConfigNode, schema: Schema, path: Path): unknown {
  const field = schema && schemaAt(schema, path);
  const isSecret = field !== undefined && marksOf(field).secret === true;
  if (isSecret && !isNull(node)) return REDACTED;
  if (isNull(node) && field !== undefined && acceptsSection(field)) return {};
  if (node.kind === 'scalar') {
    const { expansion } = node;
    const isOpen = expansion === undefined || expansion.shown === expansion.text;
    const shown = isOpen ? node.value : expansion.shown;
    return typeof shown === 'string' ? withoutCredentials(shown) : shown;
  }
  if (node.kind === 'list') {
    return node.items.map((item, index) => shownOf(item, schema, [...path, index]));
  }
  return Object.fromEntries(
    [...node.entries].map(([key, { value }]) => [key, shownOf(value, schema, [...path, key])]),
  );
}
