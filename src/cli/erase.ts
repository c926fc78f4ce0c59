import type { Command } from 'commander';
import { systemClock } from '../component/clock.ts';
import type { ShownErasure } from '../control/erasures.ts';
import { CommandError, EXIT } from './exit-status.ts';
import { Stop } from './send/stop.ts';
import {
  type CommandRepeats,
  carryOut,
  given,
  print,
  type StoreOptions,
  withStoreOptions,
} from './store-command.ts';
import { table } from './table.ts';
import type { Terminal } from './terminal.ts';

type EraseOptions = StoreOptions & {
  readonly project?: string;
  readonly dryRun?: boolean;
  readonly yes?: boolean;
  readonly blockUntil?: string;
  /** False with `--no-wait`. */
  readonly wait?: boolean;
};

/** How often the command reports how far an erasure is. */
const WAIT_MS = 1_000;

export function addErase(
  program: Command,
  terminal: Terminal,
  end: (status: number) => void,
): void {
  withStoreOptions(program.command('erase'))
    .argument(
      '<query>',
      "the traces to erase, as in 'user:U', 'id:T' or 'session:S'; -word goes behind --",
    )
    .description('erase traces with every byte of their events, also those that wait in queues')
    .option('--project <project>', 'the project, by id or name; required if there are several')
    .option('--dry-run', 'count, and change nothing')
    .option('--block-until <time>', 'do not store the ids or users of the query again until then')
    .option('--yes', 'do not ask; required without a terminal')
    .option('--no-wait', 'end as soon as the erasure is requested')
    .addHelpText(
      'after',
      `
The running daemon does the work in the background, in small steps, and goes on if this command ends.
Usage stays counted. Data that arrives later is stored again, unless --block-until is given.

Examples:
  tracectl erase --config config/embedded.yaml --project web 'user:U123' --dry-run
  tracectl erase --config config/embedded.yaml --project web 'user:U123'
  tracectl erase --config config/worker.yaml --project web 'session:S1 start:<2026-01-01' --yes
  tracectl erase --config config/worker.yaml --project web 'id:T1,T2' --block-until 2026-12-31 --yes
  tracectl erasures --config config/worker.yaml --project web`,
    )
    .action(async (query: string, options: EraseOptions) => {
      end(await erase(query, options, terminal));
    });
  withStoreOptions(program.command('erasures'))
    .description('list erasures with their progress and receipts, newest first')
    .option('--project <project>', 'the project, by id or name; required if there are several')
    .addHelpText(
      'after',
      `
Examples:
  tracectl erasures --config config/embedded.yaml --project web
  tracectl erasures --config config/embedded.yaml --project web --json`,
    )
    .action((options: EraseOptions) => list(options, terminal));
}

async function erase(query: string, options: EraseOptions, terminal: Terminal): Promise<number> {
  if (options.dryRun !== true && options.yes !== true) {
    if (terminal.ask === undefined) {
      throw new CommandError(EXIT.usage, 'erase needs --yes if no person can answer');
    }
    const counted = await run({ query, isDryRun: true }, options, terminal);
    if (counted === undefined) return EXIT.interrupted;
    if (counted.state === 'failed') {
      terminal.err(shownEnd(counted));
      return EXIT.failed;
    }
    if (findsNothing(counted) && options.blockUntil === undefined) {
      terminal.err('The query finds nothing. Nothing was erased.');
      return EXIT.ok;
    }
    const answer = await terminal.ask(`Erase ${amounts(counted)} for good? (yes/no) `);
    if (answer.trim().toLowerCase() !== 'yes') {
      terminal.err('Nothing was erased.');
      return EXIT.failed;
    }
  }
  const asked: Asked = { query, isDryRun: options.dryRun === true };
  if (options.wait === false) {
    const requested = await request(asked, options, terminal);
    print(requested, options, terminal, ({ id }) => `Requested the erasure ${id}.`);
    return EXIT.ok;
  }
  const ended = await run(asked, options, terminal);
  if (ended === undefined) return EXIT.interrupted;
  print(ended, options, terminal, shownEnd);
  return ended.state === 'failed' ? EXIT.failed : EXIT.ok;
}

type Asked = {
  readonly query: string;
  /** Only counts what an erasure would remove. */
  readonly isDryRun: boolean;
};

async function request(
  { query, isDryRun }: Asked,
  options: EraseOptions,
  terminal: Terminal,
): Promise<ShownErasure> {
  const args = given({
    project: options.project,
    q: query,
    dry_run: isDryRun,
    block_until: options.blockUntil,
  });
  return (await carryOut('erasures.create', args, options, terminal)) as ShownErasure;
}

/** Requests an erasure and waits for its end; undefined if the user stopped the wait. */
async function run(
  asked: Asked,
  options: EraseOptions,
  terminal: Terminal,
): Promise<ShownErasure | undefined> {
  const { id, project_id: project } = await request(asked, options, terminal);
  const stop = new Stop(terminal.clock ?? systemClock);
  const ignore = terminal.onInterrupt?.(() => stop.begin('interrupted', 'interrupted'));
  const repeats: CommandRepeats = {
    args: { wait_ms: WAIT_MS },
    isComplete: (answer) => {
      const erasure = answer as ShownErasure;
      if (erasure.state !== 'running') return true;
      if (!asked.isDryRun) terminal.err(progressOf(erasure));
      return stop.reason !== undefined;
    },
  };
  try {
    const waiting = carryOut('erasures.wait', { project, id }, options, terminal, repeats);
    const ended = (await stop.before(waiting)) as ShownErasure | undefined;
    if (ended !== undefined && ended.state !== 'running') return ended;
    terminal.err(`The erasure ${id} goes on in the daemon; tracectl erasures shows its progress.`);
    return undefined;
  } finally {
    ignore?.();
  }
}

/** Items that wait in a queue have bytes, and no traces yet. */
function findsNothing({ traces, observations, bytes }: ShownErasure): boolean {
  return traces === 0 && observations === 0 && bytes === 0;
}

function amounts({ traces, observations, bytes }: ShownErasure): string {
  const number = (value: number): string => value.toLocaleString('en');
  return `${number(traces)} traces, ${number(observations)} observations, ${number(bytes)} bytes`;
}

function progressOf(erasure: ShownErasure): string {
  const soFar = `${amounts(erasure)} erased so far`;
  return erasure.failure === null ? soFar : `${soFar}; waiting: ${erasure.failure}`;
}

function shownEnd(erasure: ShownErasure): string {
  const { id, state, failure, receipt } = erasure;
  if (state === 'counted') return `The query finds ${amounts(erasure)}. Nothing was erased.`;
  if (state === 'failed' || receipt === null) return `The erasure ${id} failed: ${failure}.`;
  return [
    `Erased ${amounts(erasure)}.`,
    `Receipt ${id}: ids ${receipt.ids_hash}, verified at ${receipt.verified_at}.`,
    `A copy may still be in: ${receipt.copies.join(', ')}.`,
  ].join('\n');
}

async function list(options: EraseOptions, terminal: Terminal): Promise<void> {
  const args = given({ project: options.project });
  const found = (await carryOut('erasures.list', args, options, terminal)) as ShownErasure[];
  print(found, options, terminal, (erasures) =>
    table(
      ['ID', 'STATE', 'REQUESTED AT', 'TRACES', 'OBSERVATIONS', 'BYTES', 'QUERY'],
      erasures.map((each) => [
        each.id,
        each.state,
        each.requested_at,
        String(each.traces),
        String(each.observations),
        String(each.bytes),
        each.q,
      ]),
    ),
  );
}
