import type { Command } from 'commander';
import type { ShownSearch } from '../control/search.ts';
import type { StoreOptions } from './store-command.ts';
import { carryOut, given, print, withStoreOptions } from './store-command.ts';
import type { Terminal } from './terminal.ts';

type StatusOptions = StoreOptions & { readonly project?: string };

export function addSearch(program: Command, terminal: Terminal) {
  const search = program.command('search').description('text search in payloads');
  withStoreOptions(search.command('status'))
    .description('show how far the index of payload text is; JSON in a pipe')
    .option('--project <project>', 'a project of the store, by id or name; each has the same index')
    .addHelpText(
      'after',
      `
The index is of the whole store. The option "search" of the store turns it on:

  sqlite:
    search: {payloads: 4KiB}

Fields of the JSON:
  state          off, indexing or ready
  payload_bytes  bytes of inputs, and of outputs, that are searched; null if off
  progress       part of the stored observations that is in the index, 0 to 1
  indexed        stored observations that the index has read so far
  stored         about how many observations were stored when the index began
  waiting        later changes of observations that are not in the index yet;
                 10000 stands for more, too

Examples:
  tracectl search status --config config/embedded.yaml
  tracectl search status --config config/worker.yaml | jq .progress`,
    )
    .action(async (options: StatusOptions) => {
      const args = given({ project: options.project });
      const answer = (await carryOut('search.status', args, options, terminal)) as ShownSearch;
      print(answer, { ...options, json: options.json ?? !terminal.isOutShown }, terminal, text);
    });
}

function text({ state, payload_bytes, progress, indexed, stored, waiting }: ShownSearch): string {
  if (state === 'off') return 'Payloads are not searched.';
  const fields = `the first ${payload_bytes} bytes of inputs and outputs`;
  const changes = waiting === 0 ? '' : ` ${waiting.toLocaleString('en')} changes wait.`;
  if (state === 'ready') return `Text search covers ${fields}.${changes}`;
  const done = `${Math.floor(progress * 100)} %`;
  const counts = `${indexed.toLocaleString('en')} of about ${stored.toLocaleString('en')}`;
  return `Indexing ${fields}: ${done}, ${counts} observations.${changes}`;
}
