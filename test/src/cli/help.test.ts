import { readFileSync } from 'node:fs';
import type { Command } from 'commander';
import t from 'tap';
import { createProgram } from '../../../src/cli/program.ts';

const silent = { cwd: process.cwd(), env: {}, out: () => undefined, err: () => undefined };

/** Every command with the words that call it, groups included. */
function commandsOf(command: Command, words: readonly string[] = []): [string, Command][] {
  return command.commands.flatMap((each) => {
    const called = [...words, each.name()];
    return [[called.join(' '), each] as [string, Command], ...commandsOf(each, called)];
  });
}

const COMMANDS = commandsOf(await createProgram(silent as never, () => undefined));

t.test('every command and every option has a description', (t) => {
  t.ok(COMMANDS.length > 30);
  for (const [words, command] of COMMANDS) {
    t.not(command.description(), '', words);
    for (const { flags, description } of command.options) {
      t.not(description, '', `${words} ${flags}`);
    }
  }
  t.end();
});

t.test('the README lists every command', (t) => {
  const readme = readFileSync('README.md', 'utf8');
  const rows = readme.split('\n').filter((line) => line.startsWith('| `tracectl '));
  // A row may name several commands, as in `keys list\|create`.
  const listed = rows.map((row) => row.split(' | ')[0]?.match(/[a-z-]+/g) ?? []);
  for (const [words, command] of COMMANDS) {
    if (command.commands.length > 0) continue;
    const isIn = (row: readonly string[]) => words.split(' ').every((word) => row.includes(word));
    t.ok(listed.some(isIn), words);
  }
  t.end();
});
