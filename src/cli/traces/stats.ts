import type { Command } from 'commander';
import { EXIT } from '../exit-status.ts';
import { QUERY_HELP } from '../query-argument.ts';
import { withStoreOptions } from '../store-command.ts';
import type { Terminal } from '../terminal.ts';
import { USUAL_COLUMNS } from '../terminal.ts';
import { timeArgument } from '../time-argument.ts';
import { openReading, type ReadOptions } from './reading.ts';
import type { StatsAnswer } from './stats-table.ts';
import { renderStats } from './stats-table.ts';

type StatsOptions = ReadOptions & {
  readonly from?: string;
  readonly to?: string;
  readonly step?: string;
  readonly groupBy?: string;
  readonly metric?: string;
  readonly limit?: string;
};

const EXAMPLES = `
Examples:
  tracectl stats                                    the last 24 hours, by hour
  tracectl stats --group-by model --step 1d         the last 30 days of each model
  tracectl stats 'user:"Jane Doe"' --metric cost,tokens
  tracectl stats 'has:error' --step 5m --from 2026-11-01T10:00:00Z --to 2026-11-01T12:00:00Z
  tracectl stats --group-by user --limit 5 --json | jq '.groups[].key'`;

export function addStats(
  program: Command,
  terminal: Terminal,
  end: (status: number) => void,
): void {
  withStoreOptions(program.command('stats'))
    .description('show numbers of traces by time: a table on a terminal, JSON in a pipe')
    .argument('[query]', QUERY_HELP)
    .option('--project <project>', 'id or name; required if there are several')
    .option('--from <time>', 'ISO 8601 date or time, inclusive', timeArgument)
    .option('--to <time>', 'ISO 8601 date or time, exclusive; now by default', timeArgument)
    .option('--step <step>', '5m, 1h or 1d', '1h')
    .option('--group-by <field>', 'a line for each value, such as of model, user or name')
    .option('--metric <metrics>', 'such as cost,tokens,p95; all by default')
    .option('--limit <n>', 'the most groups, 1 to 100')
    .addHelpText('after', EXAMPLES)
    .action(async (query: string | undefined, options: StatsOptions) =>
      end(await show(query, options, terminal)),
    );
}

async function show(
  query: string | undefined,
  options: StatsOptions,
  terminal: Terminal,
): Promise<number> {
  const { from, to, step, groupBy, metric, limit } = options;
  const reading = openReading(options, terminal);
  try {
    const asked = { q: query, from, to, step, group_by: groupBy, metric, limit };
    const answer = (await reading.get('/stats', asked)) as StatsAnswer | undefined;
    if (answer === undefined) {
      terminal.err('Interrupted.');
      return EXIT.interrupted;
    }
    if (options.json === true || terminal.isOutShown !== true) terminal.out(JSON.stringify(answer));
    else showTable(answer, terminal);
    return EXIT.ok;
  } finally {
    reading.close();
  }
}

function showTable(answer: StatsAnswer, terminal: Terminal): void {
  const { groups, left_out: leftOut, partial, searched_to: searchedTo } = answer;
  if (groups.length === 0) terminal.err('No trace matches.');
  else terminal.out(renderStats(answer, terminal.columns?.() ?? USUAL_COLUMNS));
  if (leftOut > 0) terminal.err(`${leftOut} more groups: --limit`);
  if (partial) {
    terminal.err(`The search takes long: the numbers are those of the traces since ${searchedTo}.`);
  }
}
