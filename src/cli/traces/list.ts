import type { Command } from 'commander';
import { CommandError, EXIT } from '../exit-status.ts';
import { QUERY_HELP } from '../query-argument.ts';
import { withStoreOptions } from '../store-command.ts';
import type { Terminal } from '../terminal.ts';
import { USUAL_COLUMNS } from '../terminal.ts';
import { timeArgument } from '../time-argument.ts';
import { type ListedTrace, renderTraces } from './listing.ts';
import { type CommandReading, openReading, type ReadOptions } from './reading.ts';

type ListOptions = ReadOptions & {
  readonly limit: string;
  readonly from?: string;
  readonly to?: string;
  readonly cursor?: string;
  readonly sort?: string;
  readonly order?: string;
};

type TracePage = {
  readonly traces: readonly ListedTrace[];
  readonly next_cursor: string | null;
  /** The time down to which a search has looked. */
  readonly searched_to?: string | null;
  readonly partial?: boolean;
};

const MOST = 100_000;
const PAGE = 1000;

const EXAMPLES = `
Examples:
  tracectl traces                                   the newest 50 traces
  tracectl traces 'status:error latency:>2s'        slow traces that failed
  tracectl traces 'user:"Jane Doe"' --from 2026-11-01T00:00:00Z
  tracectl traces 'model:gpt-4o*' --limit 10
  tracectl traces --limit 10 -- '-healthcheck'      traces without the word
  tracectl traces --sort cost --limit 20            the most expensive of the last 24 hours
  tracectl traces 'has:error' --json | jq -r .id    one JSON object a line`;

export function addTraces(
  program: Command,
  terminal: Terminal,
  end: (status: number) => void,
): void {
  withStoreOptions(program.command('traces'))
    .description('list traces: a table on a terminal, JSON lines in a pipe')
    .argument('[query]', QUERY_HELP)
    .option('--project <project>', 'id or name; required if there are several')
    .option('--limit <n>', `traces to list, 1 to ${MOST}`, '50')
    .option('--from <time>', 'ISO 8601 date or time, inclusive', timeArgument)
    .option('--to <time>', 'ISO 8601 date or time, exclusive', timeArgument)
    .option('--sort <value>', 'start (the default), latency, cost or tokens')
    .option('--order <order>', 'desc (the default) or asc')
    .option('--cursor <cursor>', 'begin behind the traces listed before, as the command printed it')
    .addHelpText('after', EXAMPLES)
    .action(async (query: string | undefined, options: ListOptions) =>
      end(await list(query, options, terminal)),
    );
}

async function list(
  query: string | undefined,
  options: ListOptions,
  terminal: Terminal,
): Promise<number> {
  const limit = limitOf(options);
  const isTable = options.json !== true && terminal.isOutShown === true;
  const found: ListedTrace[] = [];
  const reading = openReading(options, terminal);
  try {
    const cursor = await search(reading, terminal, { query, options, limit }, (traces) => {
      if (isTable) found.push(...traces);
      else for (const trace of traces) terminal.out(JSON.stringify(trace));
    });
    if (isTable) {
      if (found.length > 0)
        terminal.out(renderTraces(found, terminal.columns?.() ?? USUAL_COLUMNS));
      else terminal.err('No trace matches.');
    }
    if (reading.isInterrupted) terminal.err('Interrupted: there may be more traces.');
    if (cursor !== null && isTable) terminal.err(`More traces: --cursor ${cursor}`);
    return reading.isInterrupted ? EXIT.interrupted : EXIT.ok;
  } finally {
    reading.close();
  }
}

type Search = {
  readonly query: string | undefined;
  readonly options: ListOptions;
  readonly limit: number;
};

/** Reads pages until the limit, the end, or Ctrl-C. Resolves with the cursor of the next page, or null. */
async function search(
  reading: CommandReading,
  terminal: Terminal,
  { query, options, limit }: Search,
  add: (traces: readonly ListedTrace[]) => void,
): Promise<string | null> {
  const { from, to, sort, order } = options;
  let cursor = options.cursor ?? null;
  let left = limit;
  let hasProgress = false;
  let isInParts = false;
  do {
    const asked = { q: query, from, to, sort, order, cursor: cursor ?? undefined };
    const page = (await reading.get('/traces', {
      ...asked,
      limit: String(Math.min(left, PAGE)),
    })) as TracePage | undefined;
    if (page === undefined) break;
    add(page.traces);
    isInParts ||= sort !== undefined && sort !== 'start' && page.partial === true;
    left -= page.traces.length;
    cursor = page.next_cursor;
    if (cursor === null || left === 0 || terminal.screen === undefined) continue;
    terminal.screen.write(`\r${progressOf(page, limit - left)}\x1b[K`);
    hasProgress = true;
  } while (cursor !== null && left > 0);
  if (hasProgress) terminal.screen?.write('\r\x1b[K');
  if (isInParts) {
    terminal.err(
      'The traces of a large range are sorted in parts, newest first. Narrow it with --from and --to.',
    );
  }
  return cursor;
}

function progressOf({ searched_to: to }: TracePage, found: number): string {
  const back = typeof to === 'string' ? `, searched back to ${to.slice(0, 19)}` : '';
  return `${found} traces found${back} …`;
}

function limitOf({ limit }: ListOptions): number {
  const number = Number(limit);
  if (Number.isInteger(number) && number >= 1 && number <= MOST) return number;
  throw new CommandError(EXIT.usage, `--limit must be a whole number from 1 to ${MOST}`);
}
