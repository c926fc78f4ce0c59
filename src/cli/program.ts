import { Command, CommanderError } from 'commander';
import { addAudit } from './audit.ts';
import { addComponents } from './components.ts';
import { addCost } from './cost.ts';
import { addDeadLetter } from './dead-letter.ts';
import { addErase } from './erase.ts';
import { EXIT, exitStatusOf } from './exit-status.ts';
import { addExport } from './export/command.ts';
import { addInit } from './init.ts';
import { addKeys } from './keys.ts';
import { addOrganization } from './organization.ts';
import { packageVersion } from './package-root.ts';
import { addPrintConfig } from './print-config.ts';
import { addProjects } from './projects.ts';
import { addRejections } from './rejections.ts';
import { addReload } from './reload.ts';
import { addRun } from './run.ts';
import { addSalvage } from './salvage.ts';
import { addSchema } from './schema.ts';
import { addSearch } from './search.ts';
import { addSend } from './send/command.ts';
import type { Terminal } from './terminal.ts';
import { addGroups } from './traces/groups.ts';
import { addTraces } from './traces/list.ts';
import { addTrace } from './traces/show.ts';
import { addStats } from './traces/stats.ts';
import { addUi } from './ui.ts';
import { addUsage } from './usage.ts';
import { addValidate } from './validate.ts';

/** Runs one command line. Resolves with the exit status (`EXIT`); never rejects. */
export async function runCli(argv: readonly string[], terminal: Terminal): Promise<number> {
  let status: number = EXIT.ok;
  const end = (ended: number) => {
    status = ended;
  };
  const program = createProgram(terminal, end);
  try {
    await program.parseAsync(argv, { from: 'user' });
    return status;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage;
    terminal.err(`error: ${error instanceof Error ? error.message : String(error)}`);
    return exitStatusOf(error);
  }
}

/** The command tree. A command that does not end with status 0 or an error calls `end` with its status. */
export function createProgram(terminal: Terminal, end: (status: number) => void): Command {
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
  addRun(program, terminal, end);
  addValidate(program, terminal, end);
  addComponents(program, terminal);
  addSchema(program, terminal);
  addPrintConfig(program, terminal, end);
  addInit(program, terminal);
  addOrganization(program, terminal);
  addProjects(program, terminal);
  addKeys(program, terminal);
  addUsage(program, terminal, end);
  addCost(program, terminal);
  addSearch(program, terminal);
  addRejections(program, terminal);
  addAudit(program, terminal);
  addTraces(program, terminal);
  addStats(program, terminal);
  addExport(program, terminal, end);
  addTrace(program, terminal);
  addGroups(program, terminal);
  addErase(program, terminal, end);
  addReload(program, terminal);
  addDeadLetter(program, terminal);
  addSalvage(program, terminal);
  addSend(program, terminal, end);
  addUi(program, terminal);
  return program;
}
