import type { Command } from 'commander';
import type { ShownProject } from '../control/public-form.ts';
import { parseByteSize } from '../schema/fields.ts';
import { CommandError, EXIT } from './exit-status.ts';
import { carryOut, given, print, type StoreOptions, withStoreOptions } from './store-command.ts';
import { table, visible } from './table.ts';
import type { Terminal } from './terminal.ts';

type Options = StoreOptions & { readonly yes?: boolean };
type UpdateOptions = StoreOptions & {
  readonly name?: string;
  readonly retentionDays?: string;
  readonly eventsPerMonth?: string;
  readonly bytesPerHour?: string;
};

/** Option values that remove a project's own retention or limit. */
const PLAN = 'plan';
const NONE = 'none';

export function addProjects(program: Command, terminal: Terminal) {
  const projects = program
    .command('projects')
    .description('manage projects, with or without a running daemon');
  const add = (name: string) => withStoreOptions(projects.command(name));
  add('list')
    .description('list projects')
    .action((options: Options) => list(options, terminal));
  add('create')
    .description('create a project')
    .argument('<name>')
    .action((name: string, options: Options) => create(name, options, terminal));
  add('rename')
    .description('rename a project')
    .argument('<project>', 'id or name')
    .argument('<name>', 'the new name')
    .action((project: string, name: string, options: Options) =>
      rename(project, name, options, terminal),
    );
  add('update')
    .description('rename a project, or set its retention and limits')
    .argument('<project>', 'id or name')
    .option('--name <name>', 'the new name')
    .option('--retention-days <days>', `retention of traces in days, or ${PLAN}`)
    .option('--events-per-month <events>', `limit of the project, or ${NONE}`)
    .option('--bytes-per-hour <size>', `limit of the project, such as 1GiB, or ${NONE}`)
    .action((project: string, options: UpdateOptions) => update(project, options, terminal));
  add('delete')
    .description('delete a project with its keys and traces; its usage stays counted')
    .argument('<project>', 'id or name')
    .option('--yes', 'delete without confirmation')
    .action((project: string, options: Options) => remove(project, options, terminal));
}

async function list(options: Options, terminal: Terminal): Promise<void> {
  const answer = await carryOut('projects.list', {}, options, terminal);
  print(answer as { projects: ShownProject[] }, options, terminal, ({ projects }) =>
    table(
      ['ID', 'NAME', 'RETAINED TRACES', 'RETENTION', 'EVENTS/MONTH', 'BYTES/HOUR', 'CREATED'],
      projects.map((project) => [
        project.id,
        project.name,
        String(project.retained_traces),
        project.retention.days === null ? 'unlimited' : `${project.retention.days} days`,
        shownLimit(project.limits.events_per_month),
        shownLimit(project.limits.bytes_per_hour),
        project.created_at,
      ]),
    ),
  );
}

async function create(name: string, options: Options, terminal: Terminal): Promise<void> {
  const project = await carryOut('projects.create', { name }, options, terminal);
  print(project as ShownProject, options, terminal, ({ id }) => `Created ${id}.`);
}

async function rename(
  project: string,
  name: string,
  options: Options,
  terminal: Terminal,
): Promise<void> {
  const renamed = await carryOut('projects.update', { project, name }, options, terminal);
  print(
    renamed as ShownProject,
    options,
    terminal,
    (each) => `Renamed ${each.id} to ${visible(each.name)}.`,
  );
}

async function update(project: string, options: UpdateOptions, terminal: Terminal): Promise<void> {
  const { name, retentionDays, eventsPerMonth, bytesPerHour } = options;
  const limits = given({
    events_per_month: limitOf(eventsPerMonth, '--events-per-month', wholeNumber, NONE),
    bytes_per_hour: limitOf(bytesPerHour, '--bytes-per-hour', parseByteSize, NONE),
  });
  const days = limitOf(retentionDays, '--retention-days', wholeNumber, PLAN);
  const change = given({
    name,
    retention: days === undefined ? undefined : { days },
    limits: Object.keys(limits).length === 0 ? undefined : limits,
  });
  if (Object.keys(change).length === 0) {
    throw new CommandError(
      EXIT.usage,
      'give --name, --retention-days, --events-per-month or --bytes-per-hour',
    );
  }
  const changed = await carryOut('projects.update', { project, ...change }, options, terminal);
  print(changed as ShownProject, options, terminal, ({ id }) => `Updated ${id}.`);
}

/** The value of an option; null for the word that removes the limit. */
function limitOf(
  text: string | undefined,
  option: string,
  parse: (text: string) => number | undefined,
  none: string,
): number | null | undefined {
  if (text === undefined) return undefined;
  if (text === none) return null;
  const value = parse(text);
  if (value !== undefined && value >= 1) return value;
  throw new CommandError(EXIT.usage, `${option} is a number from 1, or ${none}`);
}

function wholeNumber(text: string): number | undefined {
  return /^\d{1,15}$/.test(text) ? Number(text) : undefined;
}

function shownLimit(limit: number | null): string {
  return limit === null ? '-' : String(limit);
}

async function remove(wanted: string, options: Options, terminal: Terminal): Promise<void> {
  const shown = await carryOut('projects.show', { project: wanted }, options, terminal);
  const project = shown as ShownProject;
  if (options.yes !== true) await confirm(project, terminal);
  const answer = await carryOut('projects.delete', { id: project.id }, options, terminal);
  print(answer as { id: string }, options, terminal, ({ id }) => `Deleted ${id}.`);
}

/** Asks for the project's name, because a deletion cannot be undone. */
async function confirm(project: ShownProject, terminal: Terminal): Promise<void> {
  if (terminal.ask === undefined) {
    throw new CommandError(EXIT.usage, 'stdin is not a terminal: give --yes to delete the project');
  }
  const { id, name, retained_traces: traces } = project;
  terminal.err(
    `This deletes ${visible(name)} (${id}) with its keys and ${traces} traces. It cannot be undone.`,
  );
  const answer = await terminal.ask(`Type the name of the project to delete it: `);
  if (answer !== name) throw new CommandError(EXIT.failed, 'nothing was deleted');
}
