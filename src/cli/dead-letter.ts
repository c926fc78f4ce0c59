import type { Command } from 'commander';
import type { ShownDeadLetter } from '../control/dead-letters.ts';
import { type ConfigOptions, loadOrFail, withConfigOptions } from './configuration.ts';
import { askDaemon } from './daemon.ts';
import { CommandError, EXIT } from './exit-status.ts';
import { table } from './table.ts';
import type { Terminal } from './terminal.ts';

type Options = ConfigOptions & {
  readonly queue?: string;
  readonly exporter?: string;
  readonly limit?: string;
  readonly all?: boolean;
  readonly json?: boolean;
};

export function addDeadLetter(program: Command, terminal: Terminal) {
  const group = program
    .command('dead-letter')
    .description('batches that a running daemon could not deliver, with reasons');
  const add = (name: string) =>
    withConfigOptions(group.command(name))
      .option('--queue <id>', 'the component that owns the queue; required if there are several')
      .option('--json', 'print JSON');
  add('list')
    .description('list dead letters')
    .option('--exporter <id>', 'only those of this exporter')
    .option('--limit <n>', 'entries to list', '100')
    .action((options: Options) => list(options, terminal));
  add('show')
    .description('show one dead letter')
    .argument('<id>')
    .action((id: string, options: Options) => show(id, options, terminal));
  for (const name of ['replay', 'drop'] as const) {
    add(name)
      .description(
        name === 'replay' ? 'put dead letters back into the queue' : 'delete dead letters',
      )
      .argument('[ids...]')
      .option('--all', 'all dead letters')
      .action((ids: string[], options: Options) => change(name, ids, options, terminal));
  }
}

async function list(options: Options, terminal: Terminal): Promise<void> {
  const answer = await ask('dead_letters.list', options, terminal, {
    limit: numberOf(options.limit ?? '100'),
    ...(options.exporter === undefined ? {} : { exporter: options.exporter }),
  });
  if (options.json === true) {
    terminal.out(JSON.stringify(answer, null, 2));
    return;
  }
  const rows = (answer as { dead_letters: ShownDeadLetter[] }).dead_letters.map((letter) => [
    letter.queue,
    String(letter.id),
    letter.exporter,
    letter.batch_id,
    String(letter.items),
    letter.failed_at,
    `${letter.code}: ${letter.message}`,
  ]);
  terminal.out(table(['QUEUE', 'ID', 'EXPORTER', 'BATCH', 'ITEMS', 'FAILED', 'REASON'], rows));
}

async function show(id: string, options: Options, terminal: Terminal): Promise<void> {
  const letter = await ask('dead_letters.show', options, terminal, { id: numberOf(id) });
  terminal.out(JSON.stringify(letter, null, 2));
}

async function change(
  name: 'replay' | 'drop',
  ids: readonly string[],
  options: Options,
  terminal: Terminal,
): Promise<void> {
  if ((ids.length === 0) !== (options.all === true)) {
    throw new CommandError(EXIT.usage, 'give either ids or --all');
  }
  const meant = options.all === true ? 'all' : ids.map(numberOf);
  const answer = await ask(`dead_letters.${name}`, options, terminal, { ids: meant });
  if (options.json === true) {
    terminal.out(JSON.stringify(answer, null, 2));
    return;
  }
  const [count] = Object.values(answer as Record<string, number>);
  terminal.out(`${name === 'replay' ? 'Replayed' : 'Deleted'} ${count ?? 0}.`);
}

async function ask(
  command: string,
  options: Options,
  terminal: Terminal,
  args: Readonly<Record<string, unknown>>,
): Promise<unknown> {
  const config = await loadOrFail(options, terminal);
  const queue = options.queue === undefined ? {} : { queue: options.queue };
  return askDaemon(config, options, terminal, command, { ...queue, ...args });
}

function numberOf(text: string): number {
  const number = Number(text);
  if (Number.isSafeInteger(number) && number >= 0) return number;
  throw new CommandError(EXIT.usage, `"${text}" is not a whole number`);
}
