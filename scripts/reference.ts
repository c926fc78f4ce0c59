/**
 * Writes docs/reference/ from the component schemas: node scripts/reference.ts
 * test/scripts/reference.test.ts fails while a page differs from what this writes.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { jsonSchema } from '../src/config/json-schema.ts';
import { type Registry, SECTIONS } from '../src/config/registry.ts';
import { REGISTRY } from '../src/registry.ts';

export const DIRECTORY = join(import.meta.dirname, '..', 'docs', 'reference');

type Schema = {
  readonly type?: string | readonly string[];
  readonly description?: string;
  readonly default?: unknown;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly pattern?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly patternProperties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: Schema | boolean;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
};

const VARIABLE = '\\$\\{';

/** Every page by file name. */
export function referencePages(registry: Registry): Map<string, string> {
  const schema = jsonSchema(registry) as Schema;
  const pages = new Map<string, string>();
  const index: string[] = [];
  for (const [section, kind] of Object.entries(SECTIONS)) {
    for (const factory of registry.filter((each) => each.kind === kind)) {
      const file = `${kind}-${factory.type}.md`;
      const found = Object.entries(schema.properties?.[section]?.patternProperties ?? {}).find(
        ([pattern]) => new RegExp(pattern).test(factory.type),
      );
      const text = `${factory.description.replace(/\.?$/, '.')} Stability: ${factory.stability}.`;
      const source = `What it is for and an example: [${section}/${factory.type}](../../${section}/${factory.type}/README.md).`;
      pages.set(file, page(`${factory.type} (${kind})`, `${text}\n\n${source}`, found?.[1] ?? {}));
      index.push(`| [\`${factory.type}\`](${file}) | ${kind} | ${factory.description} |`);
    }
  }
  const about = 'The `service` section: what runs, how it is joined, limits and own telemetry.';
  pages.set('service.md', page('service', about, schema.properties?.['service'] ?? {}));
  pages.set('README.md', indexPage(index));
  return pages;
}

function indexPage(rows: readonly string[]): string {
  return `# Reference

Every field of every component, made from the schemas that validate them. \`tracectl schema\` prints the same
as JSON Schema. The \`service\` section: [service](service.md).

| type | kind | |
|---|---|---|
${rows.join('\n')}
`;
}

function page(title: string, about: string, schema: Schema): string {
  const rows = fieldRows(schema, '');
  const table =
    rows.length === 0
      ? 'It has no fields.'
      : `| field | takes | default | meaning |\n|---|---|---|---|\n${rows.join('\n')}`;
  return `# ${title}\n\n${about}\n\n${table}\n`;
}

/** Fields in order, those of a section right below it. */
function fieldRows(schema: Schema, prefix: string): string[] {
  const rows: string[] = [];
  for (const [name, field] of Object.entries(schema.properties ?? {})) {
    const path = `${prefix}${name}`;
    const cells = [`\`${path}\``, takes(field), byDefault(field, schema, name), meaning(field)];
    rows.push(`| ${cells.join(' | ')} |`);
    rows.push(...fieldRows(field, `${path}.`));
    if (field.items !== undefined) rows.push(...fieldRows(field.items, `${path}[].`));
    const { additionalProperties } = field;
    if (typeof additionalProperties === 'object') {
      rows.push(...fieldRows(additionalProperties, `${path}.<name>.`));
    }
  }
  return rows;
}

function alternativesOf(field: Schema): Schema[] {
  return field.anyOf === undefined ? [field] : field.anyOf.flatMap(alternativesOf);
}

function takes(field: Schema): string {
  const alternatives = alternativesOf(field).filter(
    // That any value may be a `${…}` variable goes without saying.
    ({ type, pattern }) => type !== undefined && pattern !== VARIABLE,
  );
  const names = alternatives.flatMap(({ type, enum: values, const: only }) => {
    if (only !== undefined) return [`\`${String(only)}\``];
    if (values !== undefined) return values.map((value) => `\`${String(value)}\``);
    return typeof type === 'string' ? [type] : (type ?? []);
  });
  const known = [...new Set(names)].filter((name) => name !== 'null');
  return known.map((name) => (name === 'object' ? 'section' : name)).join(' or ') || 'any';
}

function byDefault(field: Schema, parent: Schema, name: string): string {
  if (field.default !== undefined) return `\`${JSON.stringify(field.default)}\``;
  return parent.required?.includes(name) === true ? 'required' : '';
}

function meaning(field: Schema): string {
  const own = field.description ?? field.anyOf?.find((one) => one.description)?.description ?? '';
  return own.replaceAll('|', '\\|').replaceAll('\n', ' ');
}

if (import.meta.main) {
  mkdirSync(DIRECTORY, { recursive: true });
  for (const [file, text] of referencePages(REGISTRY)) writeFileSync(join(DIRECTORY, file), text);
}
