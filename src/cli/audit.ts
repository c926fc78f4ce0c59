import type { Command } from 'commander';
import type { ShownAuditEntry } from '../control/public-form.ts';
import { type PageOptions, pageArguments, tellOfNextPage, withPage } from './rejections.ts';
import { carryOut, given, print, withStoreOptions } from './store-command.ts';
import { table } from './table.ts';
import type { Terminal } from './terminal.ts';

type AuditOptions = PageOptions & {
  readonly action?: string;
  readonly actor?: string;
  readonly project?: string;
  readonly from?: string;
  readonly to?: string;
};
type Audit = { audit: readonly ShownAuditEntry[]; next_cursor: string | null };

export function addAudit(program: Command, terminal: Terminal) {
  const audit = program.command('audit').description('changes of projects, keys and plans');
  withPage(withStoreOptions(audit.command('list')))
    .description('list changes, newest first')
    .option('--action <action>', 'changes with this action only, such as key.revoke')
    .option('--actor <actor>', 'changes of this actor only, such as cli or admin-token')
    .option('--project <project>', 'changes of this project and its keys only, by id or name')
    .option('--from <time>', 'changes since this ISO 8601 date or time')
    .option('--to <time>', 'changes before this ISO 8601 date or time')
    .action((options: AuditOptions) => list(options, terminal));
}

async function list(options: AuditOptions, terminal: Terminal): Promise<void> {
  const { action, actor, project, from, to } = options;
  const args = { ...pageArguments(options), ...given({ action, actor, project, from, to }) };
  const answer = (await carryOut('audit.list', args, options, terminal)) as Audit;
  print(answer, options, terminal, ({ audit }) =>
    table(
      ['AT', 'ACTOR', 'ADDRESS', 'ACTION', 'SUBJECT', 'DETAILS'],
      audit.map(({ at, actor, address, action, subject, details }) => [
        ...[at, actor, address ?? '-', action, subject],
        Object.entries(details)
          .map(([name, value]) => `${name}=${String(value)}`)
          .join(' ') || '-',
      ]),
    ),
  );
  tellOfNextPage(answer.next_cursor, options, terminal);
}
