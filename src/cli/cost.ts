import { randomUUID } from 'node:crypto';
import type { Command } from 'commander';
import type { Recomputation } from '../control/cost-recompute.ts';
import {
  type CommandRepeats,
  carryOut,
  given,
  print,
  type StoreOptions,
  withStoreOptions,
} from './store-command.ts';
import type { Terminal } from './terminal.ts';

type RecomputeOptions = StoreOptions & {
  readonly from: string;
  readonly to?: string;
  readonly project?: string;
  readonly dryRun?: boolean;
};

/** How often a recomputation reports how far it is. */
const WAIT_MS = 5_000;

export function addCost(program: Command, terminal: Terminal) {
  const cost = program.command('cost').description('costs of model calls');
  withStoreOptions(cost.command('recompute'))
    .description(
      'price stored model calls again, after an update of the prices; a cost that a client sent is not changed',
    )
    .requiredOption('--from <time>', 'ISO 8601 date or time at which the first trace starts')
    .option('--to <time>', 'ISO 8601 date or time, exclusive (default: now)')
    .option('--project <project>', 'only this project, by id or name')
    .option('--dry-run', 'show the difference and change nothing')
    .addHelpText(
      'after',
      `
The running daemon does the work in the background, in small steps, and goes on if this command ends.
The amounts are the sums of the observations whose cost changes, in USD.

Examples:
  tracectl cost recompute --config config/embedded.yaml --from 2026-01-01 --dry-run
  tracectl cost recompute --config config/worker.yaml --from 2026-01-01 --to 2026-02-01 --project web`,
    )
    .action((options: RecomputeOptions) => recompute(options, terminal));
}

async function recompute(options: RecomputeOptions, terminal: Terminal): Promise<void> {
  const { from, to, project, dryRun } = options;
  const repeats: CommandRepeats = {
    args: { run: randomUUID(), wait_ms: WAIT_MS },
    isComplete: (answer) => {
      const { is_done: isDone, observations } = answer as Recomputation;
      if (!isDone) terminal.err(`${observations.toLocaleString('en')} observations priced so far`);
      return isDone;
    },
  };
  const args = given({ from, to, project, dry_run: dryRun });
  const answer = await carryOut('cost.recompute', args, options, terminal, repeats);
  const { observations, changed, cost_before, cost_after } = answer as Recomputation;
  const result: Result = {
    observations,
    changed,
    cost_before: usd(cost_before),
    cost_after: usd(cost_after),
    dry_run: dryRun === true,
  };
  print(result, options, terminal, recomputedText);
}

type Result = {
  readonly observations: number;
  readonly changed: number;
  /** USD, of the observations that changed. */
  readonly cost_before: number;
  readonly cost_after: number;
  readonly dry_run: boolean;
};

/** The line of a recomputation that ended. */
export function recomputedText({
  observations,
  changed,
  cost_before,
  cost_after,
  dry_run,
}: Result): string {
  const priced = `Priced ${observations.toLocaleString('en')} observations`;
  const verb = dry_run ? 'would change' : 'changed';
  if (changed === 0) return `${priced}: no cost ${verb}.`;
  const sums = `${cost_before} to ${cost_after} USD`;
  return `${priced}: the cost of ${changed.toLocaleString('en')} ${verb}, together from ${sums}.`;
}

function usd(nanos: number): number {
  return nanos / 1e9;
}
