import { Command, CommanderError } from 'commander';
import { EXIT, exitStatusOf } from './exit-status.ts';
import { packageVersion } from './package-root.ts';
import { excludedWordHint, withQueryLast } from './query-argument.ts';
import type { Terminal } from './terminal.ts';

type Add = (program: Command, terminal: Terminal, end: (status: number) => void) => void;
type Listed = readonly [names: readonly string[], load: () => Promise<Add>];

/** The commands in the order of the help, by module. A command line loads only the module of its command. */
const COMMANDS: readonly Listed[] = [
  [['run'], async () => (await import('./run.ts')).addRun],
  [['validate'], async () => (await import('./validate.ts')).addValidate],
  [['components'], async () => (await import('./components.ts')).addComponents],
  [['schema'], async () => (await import('./schema.ts')).addSchema],
  [['print-config'], async () => (await import('./print-config.ts')).addPrintConfig],
  [['init'], async () => (await import('./init.ts')).addInit],
  [['organization'], async () => (await import('./organization.ts')).addOrganization],
  [['projects'], async () => (await import('./projects.ts')).addProjects],
  [['keys'], async () => (await import('./keys.ts')).addKeys],
  [['usage'], async () => (await import('./usage.ts')).addUsage],
  [['cost'], async () => (await import('./cost.ts')).addCost],
  [['search'], async () => (await import('./search.ts')).addSearch],
  [['rejections'], async () => (await import('./rejections.ts')).addRejections],
  [['audit'], async () => (await import('./audit.ts')).addAudit],
  [['traces'], async () => (await import('./traces/list.ts')).addTraces],
  [['stats'], async () => (await import('./traces/stats.ts')).addStats],
  [['export'], async () => (await import('./export/command.ts')).addExport],
  [['trace'], async () => (await import('./traces/show.ts')).addTrace],
  [['sessions', 'users'], async () => (await import('./traces/groups.ts')).addGroups],
  [['erase', 'erasures'], async () => (await import('./erase.ts')).addErase],
  [['reload'], async () => (await import('./reload.ts')).addReload],
  [['dead-letter'], async () => (await import('./dead-letter.ts')).addDeadLetter],
  [['salvage'], async () => (await import('./salvage.ts')).addSalvage],
  [['send'], async () => (await import('./send/command.ts')).addSend],
  [['ui'], async () => (await import('./ui.ts')).addUi],
];

/** Runs one command line. Resolves with the exit status (`EXIT`); never rejects. */
export async function runCli(argv: readonly string[], terminal: Terminal): Promise<number> {
  let status: number = EXIT.ok;
  const end = (ended: number) => {
    status = ended;
  };
  let program: Command | undefined;
  try {
    program = await createProgram(terminal, end, argv[0]);
    await program.parseAsync(withQueryLast(program, argv, terminal.cwd), { from: 'user' });
    return status;
  } catch (error) {
    if (error instanceof CommanderError) {
      const hint = program && excludedWordHint(program, argv, error.message);
      if (hint !== undefined) terminal.err(hint);
      return error.exitCode === 0 ? EXIT.ok : EXIT.usage;
    }
    terminal.err(`error: ${messageOf(error)}`);
    return exitStatusOf(error);
  }
}

/** A daemon that refuses a request names its query parameters; the command has options of the same names. */
function messageOf(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  const [text, name] = /^The query parameter (\w{2,}) /.exec(message) ?? [];
  if (text === undefined || name === undefined) return message;
  const rest = message.slice(text.length).replace(/\b(of|format)=(?=\w)/g, '--$1 ');
  return `--${name.replaceAll('_', '-')} ${rest}`;
}

/**
 * The command tree: all commands, or only the module of the command with this name, if there is one. A command that
 * does not end with status 0 or an error calls `end` with its status.
 */
export async function createProgram(
  terminal: Terminal,
  end: (status: number) => void,
  name?: string,
): Promise<Command> {
  const program = new Command('tracectl')
    .description('a pipeline daemon for LLM traces')
    .version(packageVersion(), '-V, --version')
    .exitOverride()
    .configureOutput({
      writeOut: (text) => terminal.out(text.trimEnd()),
      writeErr: (text) => terminal.err(text.trimEnd()),
    })
    .showSuggestionAfterError()
    .helpCommand(true);
  const named = COMMANDS.filter(([names]) => name !== undefined && names.includes(name));
  for (const [, load] of named.length === 0 ? COMMANDS : named) {
    const add = await load();
    add(program, terminal, end);
  }
  return program;
}
