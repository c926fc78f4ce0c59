import type { Command } from 'commander';
import { type ConfigOptions, loadOrFail, withConfigOptions } from './configuration.ts';
import { askDaemon } from './daemon.ts';
import type { Terminal } from './terminal.ts';

export function addReload(program: Command, terminal: Terminal) {
  withConfigOptions(program.command('reload'))
    .description('reload the configuration of the running daemon')
    .action(async (options: ConfigOptions) => {
      const config = await loadOrFail(options, terminal);
      await askDaemon(config, options, terminal, 'reload');
      terminal.out('Reloaded.');
    });
}
