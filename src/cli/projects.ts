import type { Command } from 'commander';
import type { ShownProject } from '../control/public-form.ts';
import { CommandError, EXIT } from './exit-status.ts';
import { carryOut, print, type StoreOptions, withStoreOptions } from './store-command.ts';
import { table, visible } from './table.ts';
import type { Terminal } from './terminal.ts';

type Options = StoreOptions & { readonly yes?: boolean };

export function addProjects(program: Command, terminal: Terminal) {
  const projects = program
    .command('projects')
    .description('projects, with or without a running daemon');
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
  add('delete')
    .description('delete a project with its keys and traces; what it used stays counted')
    .argument('<project>', 'id or name')
    .option('--yes', 'do not ask')
    .action((project: string, options: Options) => remove(project, options, terminal));
}

async function list(options: Options, terminal: Terminal): Promise<void> {
  const answer = await carryOut('projects.list', {}, options, terminal);
  print(answer as { projects: ShownProject[] }, options, terminal, ({ projects }) =>
    table(
      ['ID', 'NAME', 'RETAINED TRACES', 'RETENTION', 'CREATED'],
      projects.map((project) => [
        project.id,
        project.name,
        String(project.retained_traces),
        project.retention.days === null ? 'unlimited' : `${project.retention.days} days`,
        project.created_at,
      ]),
    ),
  );
}

async function create(name: string, options: Options, terminal: Terminal): Promise<void> {
  const project = await carryOut('projects.create', { name }, options, terminal);
  print(project as ShownProject, options, terminal, ({ id }) => `${id} is created.`);
}

async function rename(
  project: string,
  name: string,
  options: Options,
  terminal: Terminal,
): Promise<void> {
  const renamed = await carryOut('projects.rename', { project, name }, options, terminal);
  print(
    renamed as ShownProject,
    options,
    terminal,
    (each) => `${each.id} is now ${visible(each.name)}.`,
  );
}

async function remove(wanted: string, options: Options, terminal: Terminal): Promise<void> {
  const shown = await carryOut('projects.show', { project: wanted }, options, terminal);
  const project = shown as ShownProject;
  if (options.yes !== true) await confirm(project, terminal);
  const answer = await carryOut('projects.delete', { id: project.id }, options, terminal);
  print(answer as { id: string }, options, terminal, ({ id }) => `${id} is deleted.`);
}

/** What is deleted does not come back: a person says so, or the command line does. */
async function confirm(project: ShownProject, terminal: Terminal): Promise<void> {
  if (terminal.ask === undefined) {
    throw new CommandError(EXIT.usage, 'deleting a project needs --yes where nobody can be asked');
  }
  const { id, name, retained_traces: traces } = project;
  terminal.err(
    `This deletes ${visible(name)} (${id}) with its keys and ${traces} traces, for good.`,
  );
  const answer = await terminal.ask(`Type the name of the project to delete it: `);
  if (answer !== name) throw new CommandError(EXIT.failed, 'nothing was deleted');
}
