import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { isFieldName } from '../query/fields.ts';

/** The help of the argument `query`. */
export const QUERY_HELP =
  'terms such as status:error, or words; all of them must match; -word goes behind --';

/** A term that excludes: `-"a phrase"`, or the field of `-status:ok`, `-custom.size:L` and `-custom."a key":L`. */
const EXCLUDING = /^-(?:"|([A-Za-z_]\w*)(?:\.[^:]*)?:)/;

/**
 * The command line with `--` in front of a query that begins with a term that excludes, and the query as the last
 * argument, because an argument that begins with `-` is an option otherwise. Only commands with the argument
 * `query` change.
 */
export function withQueryLast(
  program: Command,
  argv: readonly string[],
  cwd: string,
): readonly string[] {
  const command = queryCommand(program, argv);
  if (command === undefined) return argv;
  const others: string[] = [];
  const queries: string[] = [];
  for (let i = 0; i < argv.length; i++) {
    const arg = argv[i] ?? '';
    if (arg === '--') {
      queries.push(...argv.slice(i + 1));
      break;
    }
    if (isExcluding(arg, command, cwd)) queries.push(arg);
    else others.push(arg);
    // The value of an option may have any form.
    const option = command.options.find(({ short, long }) => arg === short || arg === long);
    if (option?.required === true && i + 1 < argv.length) others.push(argv[++i] ?? '');
  }
  return queries.length === 0 ? argv : [...others, '--', ...queries];
}

/** The help for `-word`, which is no option of a command with a query: the message of the refusal names it. */
export function excludedWordHint(
  program: Command,
  argv: readonly string[],
  refusal: string,
): string | undefined {
  const command = queryCommand(program, argv);
  const [, word] = /unknown option '(-[^-'][^']*)'/.exec(refusal) ?? [];
  if (word === undefined || command === undefined) return undefined;
  return `(A word to exclude goes behind --: tracectl ${command.name()} -- '${word}')`;
}

function queryCommand(program: Command, argv: readonly string[]): Command | undefined {
  const command = program.commands.find((each) => each.name() === argv[0]);
  return command?.registeredArguments[0]?.name() === 'query' ? command : undefined;
}

/** `-cFILE` is an option if there is such a file, unless it begins with a field of the query language. */
function isExcluding(arg: string, { options }: Command, cwd: string): boolean {
  const found = EXCLUDING.exec(arg);
  if (found === null) return false;
  const [, field] = found;
  if (field === undefined || isFieldName(field)) return true;
  const isOption = options.some(({ short }) => short === `-${field[0]}`);
  return !isOption || !existsSync(resolve(cwd, arg.slice(2).replace(/^file:/, '')));
}
