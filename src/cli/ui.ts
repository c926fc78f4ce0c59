import type { Command } from 'commander';
import { type ConfigOptions, loadOrFail, withConfigOptions } from './configuration.ts';
import { askDaemon } from './daemon.ts';
import type { Terminal } from './terminal.ts';
import { reachable } from './welcome.ts';

export function addUi(program: Command, terminal: Terminal) {
  withConfigOptions(program.command('ui'))
    .description(
      'print a link to the web UI of the running daemon; it signs in once, in 10 minutes',
    )
    .action(async (options: ConfigOptions) => {
      const config = await loadOrFail(options, terminal);
      const answer = await askDaemon(config, options, terminal, 'ui.link');
      terminal.out(reachable((answer as { link: string }).link));
    });
}
