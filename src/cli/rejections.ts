import type { Command } from 'commander';
import type { ShownRejection } from '../control/public-form.ts';
import { CommandError, EXIT } from './exit-status.ts';
import { carryOut, given, print, type StoreOptions, withStoreOptions } from './store-command.ts';
import { table } from './table.ts';
import type { Terminal } from './terminal.ts';

export type PageOptions = StoreOptions & { readonly limit?: string; readonly cursor?: string };

type Rejections = { rejections: readonly ShownRejection[]; next_cursor: string | null };

export function addRejections(program: Command, terminal: Terminal) {
  const rejections = program
    .command('rejections')
    .description('recently rejected items and refused requests, with reasons, without payloads');
  withPage(withStoreOptions(rejections.command('list')))
    .description('list rejections, newest first')
    .option('--project <project>', 'id or name; required if there are several')
    .action((options: PageOptions & { project?: string }) => list(options, terminal));
}

/** Adds `--limit` and `--cursor` to a command. */
export function withPage(command: Command): Command {
  return command
    .option('--limit <n>', 'entries to list, 1 to 1000', '100')
    .option('--cursor <cursor>', 'cursor of the next page, as the previous page printed it');
}

export function pageArguments({ limit = '100', cursor }: PageOptions): Record<string, unknown> {
  const number = Number(limit);
  if (!Number.isInteger(number) || number < 1 || number > 1000) {
    throw new CommandError(EXIT.usage, '--limit must be a whole number from 1 to 1000');
  }
  return given({ limit: number, cursor });
}

/** Prints on stderr the cursor of the next page, if there is one. */
export function tellOfNextPage(next: string | null, options: PageOptions, terminal: Terminal) {
  if (next === null || options.json === true) return;
  terminal.err(`More entries: --cursor ${next}`);
}

async function list(options: PageOptions & { project?: string }, terminal: Terminal) {
  const { project } = options;
  const args = { ...pageArguments(options), ...given({ project }) };
  const answer = (await carryOut('rejections.list', args, options, terminal)) as Rejections;
  print(answer, options, terminal, ({ rejections }) =>
    table(
      ['AT', 'KEY', 'PATH', 'CODE', 'COUNT', 'ITEM', 'CLIENT', 'REASON'],
      rejections.map((each) => [
        each.at,
        each.key_id,
        each.path,
        each.code,
        String(each.count),
        each.item_id ?? '-',
        each.client ?? '-',
        each.reason,
      ]),
    ),
  );
  tellOfNextPage(answer.next_cursor, options, terminal);
}
