import { z } from 'zod';
import { type Registry, SECTIONS, typesOf } from './registry.ts';
import { serviceSchema } from './service-schema.ts';

type Json = Record<string, unknown>;

/** The JSON Schema of a whole configuration file, for editors. */
export function jsonSchema(registry: Registry): Json {
  const sections = Object.entries(SECTIONS).map(([section, kind]) => {
    const patternProperties: Json = {};
    for (const factory of registry.filter((each) => each.kind === kind)) {
      const names = [factory.type, ...(factory.aliases ?? [])].join('|');
      const { description } = factory;
      patternProperties[`^(${names})(/.+)?$`] = { ...schemaJson(factory.config), description };
    }
    const types = typesOf(registry, kind).join(', ');
    const description = `${section} by id (type or type/name). Types: ${types}`;
    const type = ['object', 'null'];
    return [section, { type, description, patternProperties, additionalProperties: false }];
  });
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: 'Configuration of tracectl',
    type: 'object',
    properties: { ...Object.fromEntries(sections), service: schemaJson(serviceSchema) },
    required: ['receivers', 'exporters', 'service'],
    additionalProperties: false,
  };
}

/** The JSON Schema of one section, with every value as a file may hold it. */
export function schemaJson(schema: z.ZodType): Json {
  const { $schema: _, ...json } = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' });
  return asWritten(json) as Json;
}

/** Every value may be a variable. */
const VARIABLE = { type: 'string', pattern: '\\$\\{' };

/** A file allows more than its schema: sections may be empty, and values may be variables. */
function asWritten(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(asWritten);
  if (typeof node !== 'object' || node === null) return node;
  const json: Json = {};
  for (const [key, value] of Object.entries(node)) {
    if (key === 'properties') {
      const fields = Object.entries(value as Json).map(([name, field]) => [name, asWritten(field)]);
      json[key] = Object.fromEntries(fields);
    } else if (key === 'default' || key === 'examples' || key === 'enum') json[key] = value;
    else json[key] = asWritten(value);
  }
  return orVariable(json);
}

function orVariable(json: Json): Json {
  const { type, enum: values, description, default: byDefault, ...rest } = json;
  if (type === 'object' || type === 'array') return { ...json, type: [type, 'null'] };
  const isNarrow = type === 'number' || type === 'integer' || type === 'boolean';
  if (!isNarrow && values === undefined) return json;
  const literal = { ...rest, type, ...(values === undefined ? {} : { enum: values }) };
  return {
    ...(description === undefined ? {} : { description }),
    ...(byDefault === undefined ? {} : { default: byDefault }),
    anyOf: [literal, VARIABLE],
  };
}
