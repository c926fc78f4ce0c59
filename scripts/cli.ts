import type { Command, Option } from 'commander';
import { createProgram } from '../src/cli/program.ts';
import type { Terminal } from '../src/cli/terminal.ts';

let printed = '';
const TERMINAL: Terminal = {
  ...{ env: {}, cwd: '/', err: () => undefined },
  out: (text) => {
    printed += text;
  },
};

/** An option is common if so many commands have it with the same meaning. */
const MANY = 10;

const PROGRAM = await createProgram(TERMINAL, () => undefined);
const COMMANDS = leavesOf(PROGRAM, []);
const COMMON = commonOf(COMMANDS.flatMap(({ command }) => command.options));

/** Every command: its options and arguments, and the text behind its help. */
export function commandReference(): string {
  return COMMANDS.map(sectionOf).join('\n\n');
}

/** The options that many commands have. */
export function commonOptions(): string {
  return optionTable([...COMMON.values()]);
}

/** The options that many commands have, by their meaning. */
function commonOf(options: readonly Option[]): ReadonlyMap<string, Option> {
  const counts = new Map<string, number>();
  for (const option of options) {
    counts.set(meaningOf(option), (counts.get(meaningOf(option)) ?? 0) + 1);
  }
  const many = options.filter((option) => (counts.get(meaningOf(option)) ?? 0) >= MANY);
  return new Map(many.map((option) => [meaningOf(option), option]));
}

function meaningOf({ flags, description }: Option): string {
  return `${flags}: ${description}`;
}

/** A command that does something, with the names that lead to it. */
type Leaf = { readonly path: readonly string[]; readonly command: Command };

function leavesOf(command: Command, path: readonly string[]): Leaf[] {
  if (command.commands.length === 0) return [{ path, command }];
  return command.commands.flatMap((each) => leavesOf(each, [...path, each.name()]));
}

function sectionOf({ path, command }: Leaf): string {
  const own = command.options.filter((option) => !isCommon(option) && !option.hidden);
  const common = command.options.filter(isCommon).map(({ long }) => `\`${long}\``);
  const parts = [
    `### tracectl ${path.join(' ')}`,
    `\`tracectl ${path.join(' ')} ${command.usage()}\`: ${command.description()}.`,
    argumentTable(command),
    own.length === 0 ? '' : optionTable(own),
    common.length === 0 ? '' : `It also takes ${common.join(', ')}.`,
    codeOf(textBehindHelp(command)),
  ];
  return parts.filter((part) => part !== '').join('\n\n');
}

function isCommon(option: Option): boolean {
  return COMMON.has(meaningOf(option));
}

function argumentTable({ registeredArguments }: Command): string {
  const rows = registeredArguments
    .filter(({ description }) => description !== '')
    .map((each) => [`\`${each.name()}\``, each.required ? 'yes' : 'no', each.description]);
  return rows.length === 0 ? '' : tableOf(['argument', 'required', 'meaning'], rows);
}

function optionTable(options: readonly Option[]): string {
  const rows = options.map((option) => [
    `\`${option.flags}\``,
    option.mandatory ? 'required' : defaultOf(option),
    [option.description, choicesOf(option)].filter((part) => part !== '').join(': '),
  ]);
  return tableOf(['option', 'default', 'meaning'], rows);
}

function defaultOf({ defaultValue, defaultValueDescription }: Option): string {
  if (defaultValueDescription !== undefined) return defaultValueDescription;
  const isNothing = defaultValue === undefined || defaultValue === false;
  return isNothing ? '' : `\`${String(defaultValue)}\``;
}

function choicesOf({ argChoices = [] }: Option): string {
  return argChoices.map((choice) => `\`${choice}\``).join(', ');
}

function tableOf(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const cells = [head, head.map(() => '---'), ...rows];
  return cells
    .map((row) => `| ${row.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`)
    .join('\n');
}

function textBehindHelp(command: Command): string {
  printed = '';
  command.outputHelp();
  return printed.slice(command.helpInformation().trimEnd().length).trim();
}

function codeOf(text: string): string {
  return text === '' ? '' : `\`\`\`text\n${text}\n\`\`\``;
}
