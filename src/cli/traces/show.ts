import { styleText } from 'node:util';
import type { Command } from 'commander';
import { ControlError } from '../../control/protocol.ts';
import { segmentOf } from '../../model/path-id.ts';
import { EXIT } from '../exit-status.ts';
import { withStoreOptions } from '../store-command.ts';
import type { Terminal } from '../terminal.ts';
import type { TreeObservation } from './forest.ts';
import { type CommandReading, openReading, type ReadOptions } from './reading.ts';
import type { ShownTrace } from './tree.ts';
import { renderTree } from './tree.ts';

type ShowOptions = ReadOptions & { readonly all?: boolean };

type TracePage = {
  readonly trace: ShownTrace;
  readonly observations: readonly TreeObservation[];
  readonly next_cursor: string | null;
};

/** Columns of a tree that no terminal shows. */
const USUAL_COLUMNS = 100;
const PAGE = '1000';

const EXAMPLES = `
Examples:
  tracectl trace 4bf92f3577b34da6a3ce929d0e0e4736
  tracectl trace 4bf92f35                   the first characters, if only one trace has them
  tracectl trace 4bf92f35 --all | less      every observation of a large trace
  tracectl trace 4bf92f35 --json | jq '.observations[] | select(.status == "error")'`;

export function addTrace(
  program: Command,
  terminal: Terminal,
  end: (status: number) => void,
): void {
  withStoreOptions(program.command('trace'))
    .description('show a trace as a tree with bars of time')
    .argument('<id>', 'id of the trace, or its first characters')
    .option('--project <project>', 'id or name; required if there are several')
    .option('--all', 'show every observation (default: 20 of a parent, 500 in all)')
    .addHelpText('after', EXAMPLES)
    .action(async (id: string, options: ShowOptions) => end(await show(id, options, terminal)));
}

async function show(id: string, options: ShowOptions, terminal: Terminal): Promise<number> {
  const reading = openReading(options, terminal);
  try {
    const found = await traceOf(reading, id, terminal);
    if (found === undefined || reading.isInterrupted) {
      terminal.err('Interrupted.');
      return EXIT.interrupted;
    }
    if (options.json === true) terminal.out(JSON.stringify(found, null, 2));
    else write(found, options, terminal);
    return EXIT.ok;
  } finally {
    reading.close();
  }
}

function write(
  { trace, observations }: TracePage,
  { all = false }: ShowOptions,
  terminal: Terminal,
) {
  const { outInColour, out, columns = () => USUAL_COLUMNS } = terminal;
  const paint =
    outInColour === undefined
      ? (_style: string, text: string) => text
      : (style: Parameters<typeof styleText>[0], text: string) =>
          styleText(style, text, { validateStream: false });
  const text = renderTree(trace, observations, { columns: columns(), all, paint });
  (outInColour ?? out)(text);
}

/** The trace with all its observations; undefined after Ctrl-C. */
async function traceOf(
  reading: CommandReading,
  id: string,
  terminal: Terminal,
): Promise<TracePage | undefined> {
  try {
    return await wholeTrace(reading, id, terminal);
  } catch (error) {
    if (!(error instanceof ControlError && error.code === 'not_found')) throw error;
    const whole = await idFrom(reading, id);
    if (whole === undefined) throw error;
    return wholeTrace(reading, whole, terminal);
  }
}

async function wholeTrace(
  reading: CommandReading,
  id: string,
  terminal: Terminal,
): Promise<TracePage | undefined> {
  const path = `/traces/${segmentOf(id)}`;
  const observations: TreeObservation[] = [];
  let cursor: string | undefined;
  for (;;) {
    const page = (await reading.get(path, { limit: PAGE, cursor })) as TracePage | undefined;
    if (page === undefined) return undefined;
    for (const each of page.observations) observations.push(each);
    if (page.next_cursor === null) {
      if (cursor !== undefined) terminal.screen?.write('\r\x1b[K');
      return { ...page, observations };
    }
    cursor = page.next_cursor;
    const { observation_count: count } = page.trace;
    terminal.screen?.write(`\r${observations.length} of ${count} observations read …\x1b[K`);
  }
}

type IdPage = {
  readonly traces: readonly { readonly id: string }[];
  readonly next_cursor: string | null;
};

/** The id of the one trace that begins with these characters; undefined if there is none, or after Ctrl-C. */
async function idFrom(reading: CommandReading, start: string): Promise<string | undefined> {
  const q = `id:${JSON.stringify(start)}*`;
  const found: string[] = [];
  let cursor: string | undefined;
  do {
    const page = (await reading.get('/traces', { q, limit: '2', cursor })) as IdPage | undefined;
    if (page === undefined) return undefined;
    found.push(...page.traces.map(({ id }) => id));
    if (found.length > 1) {
      throw new ControlError('ambiguous', `more than one trace begins with "${start}"`);
    }
    cursor = page.next_cursor ?? undefined;
  } while (cursor !== undefined);
  return found.find((id) => id.startsWith(start));
}
