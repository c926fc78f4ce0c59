import type { Command } from 'commander';
import type { ShownOrganization, ShownPlan } from '../control/public-form.ts';
import { CommandError, EXIT } from './exit-status.ts';
import { carryOut, given, print, type StoreOptions, withStoreOptions } from './store-command.ts';
import { table } from './table.ts';
import type { Terminal } from './terminal.ts';
import { usageTable } from './usage.ts';

type Options = StoreOptions & { readonly name?: string; readonly plan?: string };

export function addOrganization(program: Command, terminal: Terminal) {
  const organization = program.command('organization').description('the organization and its plan');
  withStoreOptions(organization.command('show'))
    .description('show its plan, limits and usage')
    .action((options: Options) => show(options, terminal));
  withStoreOptions(organization.command('plans'))
    .description('list the limits that it has on each plan')
    .action((options: Options) => plans(options, terminal));
  withStoreOptions(organization.command('update'))
    .description('rename the organization, or change its plan')
    .option('--name <name>', 'the new name')
    .option('--plan <plan>', 'free, pro, scale or enterprise')
    .action((options: Options) => update(options, terminal));
}

async function show(options: Options, terminal: Terminal): Promise<void> {
  const answer = await carryOut('usage.show', {}, options, terminal);
  print(answer as ShownOrganization, options, terminal, usageTable);
}

async function plans(options: Options, terminal: Terminal): Promise<void> {
  const answer = await carryOut('organization.plans', {}, options, terminal);
  const shown = (limit: number | null) => (limit === null ? 'unlimited' : String(limit));
  print(answer as { plans: ShownPlan[] }, options, terminal, (all) =>
    table(
      ['PLAN', 'PROJECTS', 'EVENTS/MONTH', 'BYTES/HOUR', 'RETENTION DAYS'],
      all.plans.map(({ name, limits }) => [
        name,
        shown(limits.projects),
        shown(limits.events_per_month),
        shown(limits.bytes_per_hour),
        shown(limits.retention_days),
      ]),
    ),
  );
}

async function update(options: Options, terminal: Terminal): Promise<void> {
  const { name, plan } = options;
  const change = given({ name, plan });
  if (Object.keys(change).length === 0) throw new CommandError(EXIT.usage, 'give --name or --plan');
  const answer = await carryOut('organization.update', change, options, terminal);
  print(answer as ShownOrganization, options, terminal, usageTable);
}
