import { constants, copyFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { Command } from 'commander';
import { DEFAULT_FILE } from './configuration.ts';
import { CommandError, EXIT } from './exit-status.ts';
import { packageRoot } from './package-root.ts';
import type { Terminal } from './terminal.ts';

export function addInit(program: Command, terminal: Terminal) {
  program
    .command('init')
    .description('write a commented starter configuration')
    .argument('[file]', 'path of the new file', DEFAULT_FILE)
    .action((file: string) => init(file, terminal));
}

function init(file: string, terminal: Terminal): void {
  const starter = join(packageRoot(), 'config', 'embedded.yaml');
  try {
    copyFileSync(starter, resolve(terminal.cwd, file), constants.COPYFILE_EXCL);
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (code !== 'EEXIST') throw error;
    throw new CommandError(EXIT.failed, `${file} exists and is left as it is; name another file`);
  }
  const option = file === DEFAULT_FILE ? '' : ` --config ${file}`;
  terminal.out(`Wrote ${file}. Start with: tracectl run${option}`);
}
