import { type Command, Option } from 'commander';
import { formatIssue } from '../config/load.ts';
import { toYaml } from '../config/print.ts';
import { type ConfigOptions, loadFiles, withConfigOptions } from './configuration.ts';
import { EXIT } from './exit-status.ts';
import type { Terminal } from './terminal.ts';

type Options = ConfigOptions & { readonly format: 'yaml' | 'json' };

export function addPrintConfig(
  program: Command,
  terminal: Terminal,
  end: (status: number) => void,
) {
  withConfigOptions(program.command('print-config'))
    .description(
      'print the effective configuration: merged, expanded, with defaults, secrets redacted',
    )
    .addOption(
      new Option('--format <format>', 'the form of the output')
        .choices(['yaml', 'json'])
        .default('yaml'),
    )
    .action(async (options: Options) => {
      const { config, issues, printable } = await loadFiles(options, terminal);
      for (const issue of issues) terminal.err(formatIssue(issue));
      if (Object.keys(printable).length > 0) {
        const isJson = options.format === 'json';
        terminal.out(isJson ? JSON.stringify(printable, null, 2) : toYaml(printable).trim());
      }
      end(config === undefined ? EXIT.configuration : EXIT.ok);
    });
}
