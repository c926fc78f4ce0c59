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
    .description('what was lately rejected or refused, and why; without payloads');
  withPage(withStoreOptions(rejections.command('list')))
    .description('list them, newest first')
    .option('--project <project>', 'id or name; needed where there are several')
    .action((options: PageOptions & { project?: string }) => list(options, terminal));
}

/** Adds `--limit` and `--cursor` to a command. */
export function withPage(command: Command): Command {
  return command
    .option('--limit <n>', 'how many at most, up to 1000', '100')
    .option('--cursor <cursor>', 'where the page before ended');
}

export function pageArguments({ limit = '100', cursor }: PageOptions): Record<string, unknown> {
  const number = Number(limit);
  if (!Number.isInteger(number) || number < 1 || number > 1000) {
    throw new CommandError(EXIT.usage, '--limit takes a whole number of 1 to 1000');
  }
  return given({ limit: number, cursor });
}

/** Says on stderr how to go on where a table is not all there is. */
export function tellOfNextPage(next: string | null, options: PageOptions, terminal: Terminal) {
  if (next === null || options.json === true) return;
  terminal.err(`There are more: --cursor ${next}`);
}

async function list(options: PageOptions & { project?: string }, terminal: Terminal) {
  const { project } = options;
  const args = { ...pageArguments(options), ...given({ project }) };
  const answer = (await carryOut('rejections.list', args, options, terminal)) as Rejections;
  print(answer, options, terminal, ({ rejections }) =>
    table(
      ['AT', 'KEY', 'PATH', 'CODE', 'COUNT', 'ITEM', 'REASON'],
      rejections.map((each) => [
        each.at,
        each.key_id,
        each.path,
        each.code,
        String(each.count),
        each.item_id ?? '-',
        each.reason,
      ]),
    ),
  );
  tellOfNextPage(answer.next_cursor, options, terminal);
}
