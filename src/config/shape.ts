import { z } from 'zod';
import { MARKS, type Marks } from '../schema/marks.ts';
import type { ConfigNode, Path } from './tree.ts';
import { isNull } from './tree.ts';

/**
 * Reads zod schemas: descriptions and marks of fields, and the keys that an object allows. Validation is zod's.
 */

type Definition = {
  readonly type: string;
  readonly innerType?: z.core.$ZodType;
  readonly in?: z.core.$ZodType;
  readonly out?: z.core.$ZodType;
  readonly getter?: () => z.core.$ZodType;
  readonly shape?: Readonly<Record<string, z.core.$ZodType>>;
  readonly element?: z.core.$ZodType;
  readonly valueType?: z.core.$ZodType;
  readonly options?: readonly z.core.$ZodType[];
  readonly defaultValue?: unknown;
};

function definitionOf(schema: z.core.$ZodType): Definition {
  return schema._zod.def as Definition;
}

/** The schema one layer further in: under optional, default, or in front of a transformation. */
function innerOf(schema: z.core.$ZodType): z.core.$ZodType | undefined {
  const definition = definitionOf(schema);
  if (definition.getter !== undefined) return definition.getter();
  if (definition.type === 'pipe') {
    const isPreprocessed =
      definition.in !== undefined && definitionOf(definition.in).type === 'transform';
    return isPreprocessed ? definition.out : definition.in;
  }
  return definition.innerType;
}

/** The schema without its wrappers. */
function coreOf(schema: z.core.$ZodType): z.core.$ZodType {
  return layersOf(schema).at(-1) ?? schema;
}

/** The schema and everything that it wraps, the outermost first. */
function layersOf(schema: z.core.$ZodType): z.core.$ZodType[] {
  const inner = innerOf(schema);
  return inner === undefined ? [schema] : [schema, ...layersOf(inner)];
}

/** Marks of a field; those of an outer layer win. */
export function marksOf(schema: z.core.$ZodType): Marks {
  const innermostFirst = layersOf(schema).reverse();
  return Object.assign({}, ...innermostFirst.map((layer) => MARKS.get(layer)));
}

/** The description of a field; that of the outermost layer wins. */
export function descriptionOf(schema: z.core.$ZodType): string | undefined {
  for (const layer of layersOf(schema)) {
    const description = z.globalRegistry.get(layer)?.description;
    if (description !== undefined) return description;
  }
  return undefined;
}

/** The alternatives a value may take: the schema's core, or every option of a union. */
function alternatives(schema: z.core.$ZodType): z.core.$ZodType[] {
  const core = coreOf(schema);
  return definitionOf(core).options?.flatMap(alternatives) ?? [core];
}

/** The keys that an object schema allows; undefined if it allows any key, or is no object. */
export function keysOf(schema: z.core.$ZodType): string[] | undefined {
  const shapes = alternatives(schema)
    .map((option) => definitionOf(option).shape)
    .filter((shape) => shape !== undefined);
  return shapes.length === 0
    ? undefined
    : [...new Set(shapes.flatMap((shape) => Object.keys(shape)))];
}

/** The schema of the value under a key or index. */
function childOf(schema: z.core.$ZodType, step: string | number): z.core.$ZodType | undefined {
  for (const option of alternatives(schema)) {
    const { shape, element, valueType } = definitionOf(option);
    // A file may name a key like a member of every object: `constructor`.
    const own = shape !== undefined && Object.hasOwn(shape, step) ? shape[String(step)] : undefined;
    const child = own ?? (typeof step === 'number' ? element : valueType);
    if (child !== undefined) return child;
  }
  return undefined;
}

export function schemaAt(schema: z.core.$ZodType, path: Path): z.core.$ZodType | undefined {
  let found: z.core.$ZodType | undefined = schema;
  for (const step of path) found = found && childOf(found, step);
  return found;
}

/**
 * The tree as a value for zod. An empty value (`otlp:`) is an empty section if the schema has a section there, and
 * otherwise an absent field. A node in `asText` gives the text of its expansion.
 */
export function toInput(
  node: ConfigNode,
  schema: z.core.$ZodType | undefined,
  asText: ReadonlySet<ConfigNode>,
): unknown {
  if (asText.has(node)) return node.expansion?.text;
  if (node.kind === 'scalar') return node.value;
  if (node.kind === 'list') {
    return node.items.map((item, index) => toInput(item, schema && childOf(schema, index), asText));
  }
  const input: Record<string, unknown> = Object.create(null);
  for (const [key, { value }] of node.entries) {
    const child = schema && childOf(schema, key);
    if (!isNull(value) || asText.has(value) || child === undefined) {
      input[key] = toInput(value, child, asText);
    } else if (acceptsSection(child)) {
      input[key] = {};
    }
  }
  return input;
}

/** True if the schema is a section (a map), so that an empty value means an empty section. */
export function acceptsSection(schema: z.core.$ZodType): boolean {
  return alternatives(schema).some((option) => {
    const { type } = definitionOf(option);
    return type === 'object' || type === 'record';
  });
}

/** Visits every field of a parsed value together with its schema. */
export function visit(
  schema: z.core.$ZodType,
  value: unknown,
  onField: (path: Path, value: unknown, marks: Marks) => void,
  path: Path = [],
): void {
  onField(path, value, marksOf(schema));
  if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) {
      const child = childOf(schema, index);
      if (child !== undefined) visit(child, item, onField, [...path, index]);
    }
  } else if (typeof value === 'object' && value !== null) {
    for (const [key, item] of Object.entries(value)) {
      const child = childOf(schema, key);
      if (child !== undefined) visit(child, item, onField, [...path, key]);
    }
  }
}

/** Adds the defaults to a value in its written form, so that the result can be read again. */
export function withDefaults(schema: z.core.$ZodType, value: unknown): unknown {
  if (Array.isArray(value)) {
    return value.map((item, index) => {
      const child = childOf(schema, index);
      return child === undefined ? item : withDefaults(child, item);
    });
  }
  if (typeof value !== 'object' || value === null) return value;
  const filled: Record<string, unknown> = {};
  for (const key of new Set([...Object.keys(value), ...(keysOf(schema) ?? [])])) {
    const child = childOf(schema, key);
    const given = (value as Record<string, unknown>)[key] ?? (child && defaultOf(child));
    if (given !== undefined) filled[key] = child === undefined ? given : withDefaults(child, given);
  }
  return filled;
}

function defaultOf(schema: z.core.$ZodType): unknown {
  for (const layer of layersOf(schema)) {
    const { type, defaultValue } = definitionOf(layer);
    if (type === 'default' || type === 'prefault') return defaultValue;
  }
  return undefined;
}
