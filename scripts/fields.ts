import { dirname, relative } from 'node:path';
import type { z } from 'zod';
import { schemaJson } from '../src/config/json-schema.ts';
import { marksOf, schemaAt } from '../src/config/shape.ts';

/** The part of JSON Schema that a table of fields reads. */
type JsonField = {
  readonly type?: string | readonly string[];
  readonly description?: string;
  readonly default?: unknown;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly pattern?: string;
  readonly properties?: Readonly<Record<string, JsonField>>;
  readonly additionalProperties?: JsonField | boolean;
  readonly required?: readonly string[];
  readonly items?: JsonField;
  readonly anyOf?: readonly JsonField[];
};
type Step = string | number;

/** Every value may also be a `${…}` variable; the tables leave that out. */
const VARIABLE = '\\$\\{';

export function schemaFields(schema: z.ZodType): JsonField {
  return schemaJson(schema);
}

/** The fields of a schema as a Markdown table for `file`, those of a section below its row. */
export function fieldTable(schema: z.ZodType, file: string): string {
  const rows = rowsOf(schema, schemaFields(schema), file);
  if (rows.length === 0) return 'It has no fields.';
  return `| field | takes | default | meaning |\n|---|---|---|---|\n${rows.join('\n')}`;
}

function rowsOf(root: z.ZodType, json: JsonField, file: string, path: readonly Step[] = []) {
  const rows: string[] = [];
  for (const [name, field] of Object.entries(json.properties ?? {})) {
    const at = [...path, name];
    const schema = schemaAt(root, at);
    const { page, form } = schema === undefined ? {} : marksOf(schema);
    const link = page === undefined ? '' : ` [Fields](${linkTo(page, file)}).`;
    const takes = form ?? formOf(field);
    const cells = [`\`${nameOf(at)}\``, takes, defaultOf(field, json, name)];
    rows.push(`| ${[...cells, `${meaningOf(field)}${link}`].join(' | ')} |`);
    if (page !== undefined) continue;
    rows.push(...rowsOf(root, field, file, at));
    if (field.items !== undefined) rows.push(...rowsOf(root, field.items, file, [...at, 0]));
    const { additionalProperties } = field;
    if (typeof additionalProperties === 'object') {
      rows.push(...rowsOf(root, additionalProperties, file, [...at, '<name>']));
    }
  }
  return rows;
}

/** `keys[].token`, `pipelines.<name>.receivers` */
function nameOf(path: readonly Step[]): string {
  return path
    .map((step) => (typeof step === 'number' ? '[]' : `.${step}`))
    .join('')
    .slice(1);
}

/** `page` is a path from the repository's root, with or without an anchor. */
function linkTo(page: string, file: string): string {
  const [target = '', anchor] = page.split('#');
  const hash = anchor === undefined ? '' : `#${anchor}`;
  return target === file ? hash : `${relative(dirname(file), target)}${hash}`;
}

function alternativesOf(field: JsonField): JsonField[] {
  return field.anyOf === undefined ? [field] : field.anyOf.flatMap(alternativesOf);
}

const FORMS: Readonly<Record<string, string>> = { object: 'section', array: 'list' };

function formOf(field: JsonField): string {
  const forms = alternativesOf(field)
    .filter(({ type, pattern }) => type !== undefined && pattern !== VARIABLE)
    .flatMap(({ type = [], enum: values, const: only }) => {
      if (only !== undefined) return [`\`${only}\``];
      if (values !== undefined) return values.map((value) => `\`${value}\``);
      return typeof type === 'string' ? [type] : type;
    })
    .filter((form) => form !== 'null')
    .map((form) => FORMS[form] ?? form);
  return [...new Set(forms)].join(' or ') || 'any';
}

function defaultOf(field: JsonField, parent: JsonField, name: string): string {
  if (field.default === undefined) return parent.required?.includes(name) ? 'required' : '';
  const text = asYaml(field.default);
  return text === '{}' || text === '' ? '' : `\`${text}\``;
}

function asYaml(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(asYaml).join(', ')}]`;
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function meaningOf(field: JsonField): string {
  const text = field.description ?? field.anyOf?.find((one) => one.description)?.description ?? '';
  return text.replaceAll('|', '\\|').replaceAll('\n', ' ');
}
