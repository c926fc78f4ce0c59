import type { Command } from 'commander';
import { CommandError, EXIT } from '../exit-status.ts';
import { withStoreOptions } from '../store-command.ts';
import { table } from '../table.ts';
import type { Terminal } from '../terminal.ts';
import { timeArgument } from '../time-argument.ts';
import type { Figured } from './figures.ts';
import { costText, timeText, tokensText } from './figures.ts';
import { type CommandReading, openReading, type ReadOptions } from './reading.ts';

type GroupOptions = ReadOptions & {
  readonly limit: string;
  readonly from?: string;
  readonly to?: string;
  readonly cursor?: string;
};

/** A session or a user of a list. */
type ListedGroup = Figured & {
  readonly id: string;
  readonly first_time: string | null;
  readonly last_time: string | null;
  readonly traces: number;
  readonly errors: number;
  readonly partial: boolean;
  /** Of a session. */
  readonly user_id?: string | null;
  /** Of a user. */
  readonly sessions?: number;
};

type GroupPage = Readonly<Partial<Record<GroupName, readonly ListedGroup[]>>> & {
  readonly next_cursor: string | null;
};

type GroupName = 'sessions' | 'users';

const MOST = 100_000;
const PAGE = 1000;

/** `tracectl sessions` and `tracectl users`. */
export function addGroups(
  program: Command,
  terminal: Terminal,
  end: (status: number) => void,
): void {
  for (const name of ['sessions', 'users'] as const) {
    withStoreOptions(program.command(name))
      .description(
        `list ${name} with the sums of their traces: a table on a terminal, JSON lines in a pipe`,
      )
      .argument('[query]', 'the traces that count, as in tracectl traces; -word goes behind --')
      .option('--project <project>', 'id or name; required if there are several')
      .option('--limit <n>', `${name} to list, 1 to ${MOST}`, '50')
      .option(
        '--from <time>',
        'start of the traces, ISO 8601 date or time, inclusive',
        timeArgument,
      )
      .option('--to <time>', 'start of the traces, ISO 8601 date or time, exclusive', timeArgument)
      .option('--cursor <cursor>', 'begin behind those listed before, as the command printed it')
      .addHelpText('after', examplesOf(name))
      .action(async (query: string | undefined, options: GroupOptions) =>
        end(await list(name, query, options, terminal)),
      );
  }
}

function examplesOf(name: GroupName): string {
  return `
Examples:
  tracectl ${name}                            those with the newest traces
  tracectl ${name} 'has:error' --limit 10     with the sums of their failed traces
  tracectl ${name} --json | jq -r .id         one JSON object a line`;
}

async function list(
  name: GroupName,
  query: string | undefined,
  options: GroupOptions,
  terminal: Terminal,
): Promise<number> {
  const limit = limitOf(options);
  const isTable = options.json !== true && terminal.isOutShown === true;
  const found: ListedGroup[] = [];
  const reading = openReading(options, terminal);
  try {
    const asked = { q: query, from: options.from, to: options.to, cursor: options.cursor };
    const next = await readPages(reading, name, { ...asked, limit }, (groups) => {
      if (isTable) found.push(...groups);
      else for (const group of groups) terminal.out(JSON.stringify(group));
    });
    if (isTable) {
      if (found.length > 0) terminal.out(renderGroups(name, found));
      else terminal.err(`No ${name} found.`);
    }
    if (reading.isInterrupted) terminal.err(`Interrupted: there may be more ${name}.`);
    if (next !== null && isTable) terminal.err(`More ${name}: --cursor ${next}`);
    return reading.isInterrupted ? EXIT.interrupted : EXIT.ok;
  } finally {
    reading.close();
  }
}

type Asked = {
  readonly q: string | undefined;
  readonly from: string | undefined;
  readonly to: string | undefined;
  readonly cursor: string | undefined;
  readonly limit: number;
};

/** Reads pages until the limit, the end, or Ctrl-C. Resolves with the cursor of the next page, or null. */
async function readPages(
  reading: CommandReading,
  name: GroupName,
  { cursor: first, limit, ...asked }: Asked,
  add: (groups: readonly ListedGroup[]) => void,
): Promise<string | null> {
  let cursor = first ?? null;
  let left = limit;
  do {
    const page = (await reading.get(`/${name}`, {
      ...asked,
      cursor: cursor ?? undefined,
      limit: String(Math.min(left, PAGE)),
    })) as GroupPage | undefined;
    if (page === undefined) break;
    const groups = page[name] ?? [];
    add(groups);
    left -= groups.length;
    cursor = page.next_cursor;
  } while (cursor !== null && left > 0);
  return cursor;
}

const NUMBERS = ['TRACES', 'ERRORS', 'TOKENS', 'COST', 'SESSIONS'];

/** A plus sign marks sums over the newest traces only. */
function renderGroups(name: GroupName, groups: readonly ListedGroup[]): string {
  const own = name === 'sessions' ? 'USER' : 'SESSIONS';
  const head = [name === 'sessions' ? 'SESSION' : 'USER', 'FIRST', 'LAST', 'TRACES', 'ERRORS'];
  return table(
    [...head, 'TOKENS', 'COST', own],
    groups.map((group) => {
      const more = group.partial ? '+' : '';
      return [
        group.id,
        timeText(group.first_time),
        timeText(group.last_time),
        `${group.traces}${more}`,
        `${group.errors}${more}`,
        `${tokensText(group)}${more}`,
        `${costText(group)}${more}`,
        name === 'sessions' ? (group.user_id ?? '-') : `${group.sessions ?? 0}${more}`,
      ];
    }),
    NUMBERS,
  );
}

function limitOf({ limit }: GroupOptions): number {
  const number = Number(limit);
  if (Number.isInteger(number) && number >= 1 && number <= MOST) return number;
  throw new CommandError(EXIT.usage, `--limit must be a whole number from 1 to ${MOST}`);
}
