import { Command } from 'commander';
import t from 'tap';
import { addExport } from '../../../src/cli/export/command.ts';
import { timeArgument } from '../../../src/cli/time-argument.ts';
import { addGroups } from '../../../src/cli/traces/groups.ts';
import { addTraces } from '../../../src/cli/traces/list.ts';
import { addStats } from '../../../src/cli/traces/stats.ts';

t.test('takes a date as its start in UTC, and passes on other texts', async (t) => {
  t.equal(timeArgument('2026-11-01'), '2026-11-01T00:00:00Z');
  for (const text of ['2026-11-01T10:00:00+02:00', '2026-11-1', '2026-11', 'yesterday', '']) {
    t.equal(timeArgument(text), text);
  }
});

t.test('every command that reads a range of traces takes dates', async (t) => {
  const program = new Command();
  const none = {} as never;
  for (const add of [addTraces, addStats, addGroups, addExport]) add(program, none, none);
  const ranged = program.commands.filter(({ options }) =>
    options.some(({ long }) => long === '--from'),
  );
  t.equal(ranged.length, 5);
  for (const command of ranged) {
    for (const name of ['--from', '--to']) {
      const option = command.options.find(({ long }) => long === name);
      t.equal(option?.parseArg, timeArgument, `${command.name()} ${name}`);
    }
  }
});
