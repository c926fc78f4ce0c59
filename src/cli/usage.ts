import { randomUUID } from 'node:crypto';
import type { Command } from 'commander';
import type { ShownOrganization } from '../control/public-form.ts';
import type { ShownHistory } from '../control/usage-range.ts';
import type { UsageDifference, Verification } from '../control/usage-verify.ts';
import { EXIT } from './exit-status.ts';
import {
  type CommandRepeats,
  carryOut,
  given,
  print,
  type StoreOptions,
  withStoreOptions,
} from './store-command.ts';
import { table, visible } from './table.ts';
import type { Terminal } from './terminal.ts';

type HistoryOptions = StoreOptions & {
  readonly from?: string;
  readonly to?: string;
  readonly by?: string;
  readonly project?: string;
};

export function addUsage(program: Command, terminal: Terminal, end: (status: number) => void) {
  const usage = program.command('usage').description('usage of the plan, now and in the past');
  withStoreOptions(usage.command('show', { isDefault: true }))
    .description('show the plan, its limits and the usage of this month and hour')
    .action((options: StoreOptions) => show(options, terminal));
  withStoreOptions(usage.command('history'))
    .description('list usage by day or hour (UTC), project and key')
    .option('--from <time>', 'ISO 8601 date or time (default: 30 days or 48 hours before --to)')
    .option('--to <time>', 'ISO 8601 date or time, exclusive (default: now)')
    .option('--by <period>', 'day or hour', 'day')
    .option('--project <project>', 'only this project, by id or name')
    .action((options: HistoryOptions) => history(options, terminal));
  withStoreOptions(usage.command('verify'))
    .description('recompute every sum from the ledger and compare; exit status 1 if they differ')
    .action(async (options: StoreOptions) => end(await verify(options, terminal)));
}

async function show(options: StoreOptions, terminal: Terminal): Promise<void> {
  const answer = await carryOut('usage.show', {}, options, terminal);
  print(answer as ShownOrganization, options, terminal, usageTable);
}

/** The table of `usage show` and `organization show`. */
export function usageTable({ name, plan, limits, usage }: ShownOrganization): string {
  const rows = [
    ['events this month', usage.month.events, limits.events_per_month, usage.month.resets_at],
    ['bytes this hour', usage.hour.bytes, limits.bytes_per_hour, usage.hour.resets_at],
  ] as const;
  const lines = rows.map(([what, used, limit, resetsAt]) => [
    what,
    String(used),
    limit === null ? 'unlimited' : String(limit),
    resetsAt,
  ]);
  return `${visible(name)}, plan ${plan}\n\n${table(['', 'USED', 'LIMIT', 'RESETS'], lines)}`;
}

async function history(options: HistoryOptions, terminal: Terminal): Promise<void> {
  const { from, to, by, project } = options;
  const args = given({ from, to, by, project });
  const answer = await carryOut('usage.history', args, options, terminal);
  print(answer as ShownHistory, options, terminal, ({ usage }) =>
    table(
      ['PERIOD', 'PROJECT', 'KEY', 'EVENTS', 'BYTES', 'REJECTED'],
      usage.map((row) => [
        row.period,
        row.project_id,
        row.key_id,
        String(row.events),
        String(row.bytes),
        Object.entries(row.rejected)
          .map(([code, count]) => `${code} ${count}`)
          .join(', ') || '-',
      ]),
    ),
  );
}

/** How often a verification reports how far it is. */
const VERIFY_WAIT_MS = 5_000;

async function verify(options: StoreOptions, terminal: Terminal): Promise<number> {
  const isComplete = (answer: unknown): boolean => {
    const verification = answer as Verification;
    if ('differences' in verification) return true;
    terminal.err(`${verification.rows.toLocaleString('en')} rows read so far`);
    return false;
  };
  const repeats: CommandRepeats = {
    args: { run: randomUUID(), wait_ms: VERIFY_WAIT_MS },
    isComplete,
  };
  const answer = await carryOut('usage.verify', {}, options, terminal, repeats);
  const { differences } = answer as { differences: readonly UsageDifference[] };
  print({ differences }, options, terminal, () =>
    differences.length === 0
      ? 'Every sum matches the ledger.'
      : table(
          ['WHAT', 'LEDGER', 'FOUND'],
          differences.map(({ what, expected, found }) => [what, String(expected), String(found)]),
        ),
  );
  return differences.length === 0 ? EXIT.ok : EXIT.failed;
}
