/**
 * Writes the generated parts of the documentation: `npm run docs`. They are between the markers
 * `<!-- generated: NAME -->` and `<!-- end -->`. test/scripts/reference.test.ts fails if one is out of date.
 */
import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { MIGRATIONS as POSTGRES_MIGRATIONS } from '../extensions/postgres/migrations/index.ts';
import { STORE_MIGRATIONS } from '../extensions/sqlite/migrations/index.ts';
import type { Factory } from '../src/component/factory.ts';
import { SECTIONS } from '../src/config/registry.ts';
import { serviceSchema } from '../src/config/service-schema.ts';
import { FIELD_NAMES, FIELDS } from '../src/query/fields.ts';
import { allFactories } from '../src/registry.ts';
import { clientTls } from '../src/schema/client-tls.ts';
import { serverTls } from '../src/schema/server-tls.ts';
import { QUEUE_MIGRATIONS } from '../src/sqlite/queue/migrations/index.ts';
import { plans } from '../src/tenancy/plans.ts';
import { commandReference, commonOptions } from './cli.ts';
import { conventionTables } from './conventions.ts';
import { fieldTable, schemaFields } from './fields.ts';
import { httpRequests, httpShapes } from './http-api.ts';
import { logEventTables } from './log-events.ts';
import { roomPicture } from './rooms.ts';

const FACTORIES = await allFactories();

const ROOT = join(import.meta.dirname, '..');
const SECTION_OF = Object.fromEntries(Object.entries(SECTIONS).map(([name, kind]) => [kind, name]));

/** The parts that a marker can name, each with the lines for a file. */
const PARTS: Readonly<Record<string, (file: string) => string>> = {
  fields: (file) => fieldTable(factoryOf(file).config, file),
  components: componentTable,
  'service fields': (file) => fieldTable(serviceSchema, file),
  'server tls fields': (file) => fieldTable(serverTls(), file),
  'client tls fields': (file) => fieldTable(clientTls('the server'), file),
  plans: planTable,
  rooms: roomPicture,
  'query fields': queryFieldTable,
  conventions: conventionTables,
  'log events': logEventTables,
  'table versions': versionTable,
  'http requests': httpRequests,
  'http shapes': httpShapes,
  commands: commandReference,
  'common options': commonOptions,
};

/** Every file with a generated part, as it is and as it should be. */
export function documents(): { file: string; text: string; current: string }[] {
  const files = globSync(['docs/*.md', '*/*/README.md'], { cwd: ROOT }).sort();
  return files.flatMap((file) => {
    const current = readFileSync(join(ROOT, file), 'utf8');
    const text = withParts(file, current);
    return text.includes('<!-- generated: ') ? [{ file, text, current }] : [];
  });
}

function withParts(file: string, text: string): string {
  const marked = /<!-- generated: (.*?) -->\n[\s\S]*?<!-- end -->/g;
  return text.replace(marked, (_, name: string) => {
    const part = PARTS[name];
    if (part === undefined) throw new Error(`${file}: unknown generated part "${name}"`);
    return `<!-- generated: ${name} -->\n${part(file)}\n<!-- end -->`;
  });
}

/** The factory that a README belongs to. */
function factoryOf(file: string): Factory {
  const factory = FACTORIES.find((each) => readmeOf(each) === file);
  if (factory === undefined) throw new Error(`${file} belongs to no component of the registry`);
  return factory;
}

export function readmeOf({ kind, type }: Factory): string {
  return `${SECTION_OF[kind]}/${type}/README.md`;
}

function componentTable(): string {
  const rows = FACTORIES.map((factory) => {
    const { type, kind, stability, description } = factory;
    return `| [\`${type}\`](../${readmeOf(factory)}) | ${kind} | ${stability} | ${description} |`;
  });
  return ['| type | kind | stability | |', '|---|---|---|---|', ...rows].join('\n');
}

/** The versions of the tables: of the first release, and of this one. */
function versionTable(): string {
  const newest = POSTGRES_MIGRATIONS.at(-1)?.name;
  return [
    '| release | `store.db` | `queue.db` | newest migration in Postgres |',
    '|---|---|---|---|',
    '| up to 0.1.0 | 0 | 0 | `0004-traces` |',
    `| this one | ${STORE_MIGRATIONS.length} | ${QUEUE_MIGRATIONS.length} | \`${newest}\` |`,
  ].join('\n');
}

/** The plans of `src/tenancy` with their default limits. */
function planTable(): string {
  const byPlan = Object.entries(schemaFields(plans).properties ?? {});
  const limits = Object.keys(byPlan[0]?.[1].properties ?? {});
  const rows = byPlan.map(([plan, { properties = {} }]) => [
    `\`${plan}\``,
    ...limits.map((limit) => String(properties[limit]?.default)),
  ]);
  const head = ['plan', ...limits.map((limit) => `\`${limit}\``)];
  return [head, head.map(() => '---'), ...rows].map((row) => `| ${row.join(' | ')} |`).join('\n');
}

/** The fields of the query language. */
function queryFieldTable(): string {
  const rows = FIELD_NAMES.map((name) => {
    const { type, of, meaning, choices, isKeyed } = FIELDS[name];
    const shown = isKeyed === true ? `${name}.NAME` : name;
    const takes = choices === undefined ? type : choices.map((one) => `\`${one}\``).join(', ');
    return `| \`${shown}\` | ${of} | ${takes} | ${meaning} |`;
  });
  return ['| field | of | takes | meaning |', '|---|---|---|---|', ...rows].join('\n');
}

if (import.meta.main) {
  for (const { file, text, current } of documents()) {
    if (text !== current) writeFileSync(join(ROOT, file), text);
  }
}
