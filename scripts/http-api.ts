import { ingestionPaths } from '../extensions/admin/ingestion.ts';
import { INGESTION } from '../extensions/admin/ingestion-schemas.ts';
import { componentsOf } from '../extensions/admin/json-schema.ts';

/** The parts of the OpenAPI document that the page shows. */
type Schema = {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly description?: string;
  readonly default?: unknown;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly format?: string;
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: Schema | boolean;
  readonly required?: readonly string[];
};
type Content = Readonly<Record<string, { readonly schema: Schema }>>;
type Operation = {
  readonly summary: string;
  readonly parameters?: readonly {
    readonly name: string;
    readonly in: string;
    readonly required: boolean;
    readonly description?: string;
    readonly schema: Schema;
  }[];
  readonly requestBody?: { readonly content: Content };
  readonly responses: Readonly<
    Record<string, { readonly description: string; readonly content?: Content }>
  >;
};

const METHODS = ['get', 'post', 'put', 'patch', 'delete'] as const;

/** Every request of the ingestion listener: parameters, body, answers and errors. */
export function httpRequests(): string {
  const sections = Object.entries(ingestionPaths()).flatMap(([path, item]) =>
    METHODS.flatMap((method) => {
      const operation = (item as Record<string, Operation>)[method];
      return operation === undefined ? [] : [requestSection(method, path, operation)];
    }),
  );
  return sections.join('\n\n');
}

function requestSection(method: string, path: string, operation: Operation): string {
  const { summary, parameters = [], requestBody, responses } = operation;
  const lines = [`### ${method.toUpperCase()} ${path}`, '', `${summary}.`];
  if (parameters.length > 0) {
    lines.push('', '| parameter | in | takes | meaning |', '|---|---|---|---|');
    for (const { name, in: place, schema, description = '' } of parameters) {
      lines.push(
        `| \`${name}\` | ${place} | ${cell(boundedType(schema))} | ${cell(description)} |`,
      );
    }
  }
  if (requestBody !== undefined) lines.push('', `Body: ${contentText(requestBody.content)}.`);
  const answers = Object.entries(responses);
  const good = answers.filter(([status]) => status < '300');
  for (const [status, { description, content }] of good) {
    const body = content === undefined ? '' : ` ${contentText(content)}.`;
    lines.push('', `${status}: ${sentence(description)}${body}`);
  }
  const bad = answers.filter(([status]) => status >= '300');
  if (bad.length > 0) {
    const codes = bad.map(([status, { description }]) => `${status} (${description})`);
    lines.push('', `Errors: ${codes.join(', ')}.`);
  }
  return lines.join('\n');
}

/** The shapes that requests and answers refer to. */
export function httpShapes(): string {
  const schemas = componentsOf(Object.values(INGESTION)) as Readonly<Record<string, Schema>>;
  return Object.entries(schemas)
    .map(([name, schema]) => shapeSection(name, schema))
    .join('\n\n');
}

function shapeSection(name: string, schema: Schema): string {
  const lines = [`### ${name}`];
  if (schema.description !== undefined) lines.push('', sentence(schema.description));
  const alternatives = schema.anyOf ?? [schema];
  for (const each of alternatives) {
    const rows = Object.entries(each.properties ?? {});
    if (each !== schema && each.description !== undefined)
      lines.push('', sentence(each.description));
    if (rows.length === 0) lines.push('', `${boundedType(each)}.`);
    else lines.push('', '| member | type | |', '|---|---|---|', ...rows.map(memberRow(each)));
  }
  return lines.join('\n');
}

function memberRow({ required = [] }: Schema) {
  return ([name, schema]: readonly [string, Schema]): string => {
    const description = descriptionOf(schema);
    const meaning = required.includes(name) ? description : `Optional. ${description}`;
    return `| \`${name}\` | ${cell(typeText(schema))} | ${cell(meaning.trim())} |`;
  };
}

/** Of a value that may be null, that of the value. */
function descriptionOf({ description, anyOf = [] }: Schema): string {
  return description ?? anyOf.find((each) => each.description !== undefined)?.description ?? '';
}

function contentText(content: Content): string {
  const shown = Object.entries(content).map(([media, { schema }]) => {
    return schema.$ref === undefined ? `\`${media}\`` : `\`${media}\` ${typeText(schema)}`;
  });
  return shown.join(' or ');
}

/** The type with its bounds and default. */
function boundedType(schema: Schema): string {
  const { minimum, maximum, default: byDefault } = schema;
  const bounds = [
    ...(minimum === undefined ? [] : [`from ${minimum}`]),
    ...(maximum === undefined || maximum >= Number.MAX_SAFE_INTEGER ? [] : [`to ${maximum}`]),
    ...(byDefault === undefined ? [] : [`default \`${String(byDefault)}\``]),
  ];
  return [typeText(schema), ...bounds].join(', ');
}

function typeText(schema: Schema): string {
  const { $ref, type, anyOf, items, properties, additionalProperties } = schema;
  if ($ref !== undefined) {
    const name = $ref.slice($ref.lastIndexOf('/') + 1);
    return `[${name}](#${name.toLowerCase()})`;
  }
  if (schema.enum !== undefined)
    return schema.enum.map((value) => `\`${String(value)}\``).join(', ');
  if (schema.const !== undefined) return `\`${String(schema.const)}\``;
  if (anyOf !== undefined) return [...new Set(anyOf.map(typeText))].join(' or ');
  if (items !== undefined) return `array of ${typeText(items)}`;
  if (properties !== undefined && Object.keys(properties).length > 0) {
    const members = Object.entries(properties).map(
      ([name, each]) => `\`${name}\`: ${typeText(each)}`,
    );
    return `object with ${members.join(', ')}`;
  }
  if (typeof additionalProperties === 'object' && Object.keys(additionalProperties).length > 0) {
    return `object of ${typeText(additionalProperties)}`;
  }
  if (type === undefined) return 'any JSON';
  return typeof type === 'string' ? type : type.join(' or ');
}

function sentence(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

/** A text in a cell of a table. */
function cell(text: string): string {
  return text.replaceAll('|', '\\|').replaceAll('\n', ' ');
}
