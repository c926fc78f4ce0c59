import type { Command } from 'commander';
import { formatIssue } from '../config/load.ts';
import { type ConfigOptions, loadFiles, loadOrFail, withConfigOptions } from './configuration.ts';
import { EXIT } from './exit-status.ts';
import type { Terminal } from './terminal.ts';

type Options = ConfigOptions & { readonly json?: boolean };

export function addValidate(program: Command, terminal: Terminal, end: (status: number) => void) {
  withConfigOptions(program.command('validate'))
    .description('check a configuration without opening connections, ports or data files')
    .option('--json', 'print the findings as JSON')
    .action(async (options: Options) => end(await validate(options, terminal)));
}

async function validate(options: Options, terminal: Terminal): Promise<number> {
  if (options.json !== true) {
    await loadOrFail(options, terminal, { warns: true });
    return EXIT.ok;
  }
  const { config, issues } = await loadFiles(options, terminal);
  const shown = issues.map((issue) => ({ ...issue, text: formatIssue(issue) }));
  terminal.out(JSON.stringify({ valid: config !== undefined, issues: shown }, null, 2));
  return config === undefined ? EXIT.configuration : EXIT.ok;
}
