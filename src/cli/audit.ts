import type { Command } from 'commander';
import type { ShownAuditEntry } from '../control/public-form.ts';
import { type PageOptions, pageArguments, tellOfNextPage, withPage } from './rejections.ts';
import { carryOut, print, withStoreOptions } from './store-command.ts';
import { table } from './table.ts';
import type { Terminal } from './terminal.ts';

type Audit = { audit: readonly ShownAuditEntry[]; next_cursor: string | null };

export function addAudit(program: Command, terminal: Terminal) {
  const audit = program.command('audit').description('changes of projects, keys and plans');
  withPage(withStoreOptions(audit.command('list')))
    .description('list changes, newest first')
    .action((options: PageOptions) => list(options, terminal));
}

async function list(options: PageOptions, terminal: Terminal): Promise<void> {
  const args = pageArguments(options);
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
