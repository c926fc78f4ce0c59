import { readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { Command } from 'commander';
import { DEFAULT_FILE } from './configuration.ts';
import { CommandError, EXIT } from './exit-status.ts';
import { fileRefusal } from './file-error.ts';
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
  const starter = readFileSync(join(packageRoot(), 'config', 'embedded.yaml'));
  try {
    writeFileSync(resolve(terminal.cwd, file), starter, { flag: 'wx' });
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    const message =
      code === 'EEXIST'
        ? `${file} exists and is left as it is; name another file`
        : `${file} cannot be written: ${fileRefusal(error)}`;
    throw new CommandError(EXIT.failed, message);
  }
  const option = file === DEFAULT_FILE ? '' : ` --config ${file}`;
  terminal.out(`Wrote ${file}. Start with: tracectl run${option}`);
}
