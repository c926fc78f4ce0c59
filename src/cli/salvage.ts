import type { Command } from 'commander';
import type { ServiceConfig } from '../config/config.ts';
import { createService } from '../engine/service.ts';
import { SALVAGE, type SalvagedFile } from '../store/salvage.ts';
import { loadOrFail, withConfigOptions } from './configuration.ts';
import { CommandError, EXIT } from './exit-status.ts';
import { onlyExtension, type StoreOptions } from './store-command.ts';
import { table } from './table.ts';
import type { Terminal } from './terminal.ts';

export function addSalvage(program: Command, terminal: Terminal) {
  withConfigOptions(program.command('salvage'))
    .description(
      'copy every readable row of a damaged store or queue into a new file, and keep the damaged file; the daemon must not run',
    )
    .option('--store <id>', 'the extension; required if several keep files')
    .option('--json', 'print JSON')
    .action((options: StoreOptions) => salvage(options, terminal));
}

async function salvage(options: StoreOptions, terminal: Terminal): Promise<void> {
  const config = await loadOrFail(options, terminal);
  const id = salvageable(config, options.store);
  // The service is not started: a start refuses the damaged file.
  const service = await createService({ config: onlyExtension(config, id) });
  const [found] = service.offers(SALVAGE);
  if (found === undefined) throw new CommandError(EXIT.failed, `${id} keeps no files`);
  const files = await found.offer();
  await service.shutdown();
  if (options.json === true) terminal.out(JSON.stringify(files, null, 2));
  else for (const file of files) terminal.out(textOf(file));
  if (files.length === 0) throw new CommandError(EXIT.failed, `${id} has no file to salvage`);
}

function salvageable(config: ServiceConfig, wanted: string | undefined): string {
  const ids = config.service.extensions.filter((id) =>
    config.extensions.get(id)?.factory.provides.includes(SALVAGE),
  );
  const [only] = ids;
  if (only === undefined) throw new CommandError(EXIT.failed, 'the configuration keeps no files');
  if (wanted !== undefined && ids.includes(wanted)) return wanted;
  if (wanted === undefined && ids.length === 1) return only;
  throw new CommandError(EXIT.usage, `name one extension with --store: ${ids.join(', ')}`);
}

function textOf({ file, kept, tables, startsAnew }: SalvagedFile): string {
  const rows = tables
    .filter(({ rows, isComplete }) => rows > 0 || !isComplete)
    .map(({ name, rows, isComplete }) => [name, String(rows), isComplete ? 'yes' : 'no']);
  const lines = [
    `Salvaged ${file}`,
    `The former file is kept: ${kept}`,
    table(['TABLE', 'ROWS', 'COMPLETE'], rows),
  ];
  if (startsAnew) {
    lines.push(
      'No project could be read: the next start creates a first one, with a new key. All former keys are refused.',
    );
  }
  return lines.join('\n');
}
