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
  const result = {
    observations,
    changed,
    cost_before: usd(cost_before),
    cost_after: usd(cost_after),
    dry_run: dryRun === true,
  };
  print(result, options, terminal, () => {
    const verb = dryRun === true ? 'would change' : 'changed';
    const sums = `${result.cost_before} to ${result.cost_after} USD`;
    const all = observations.toLocaleString('en');
    return `Priced ${all} observations: ${changed.toLocaleString('en')} ${verb}, from ${sums}.`;
  });
}

function usd(nanos: number): number {
  return nanos / 1e9;
}
