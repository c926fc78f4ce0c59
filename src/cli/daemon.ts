import { resolve } from 'node:path';
import type { ServiceConfig } from '../config/config.ts';
import { callDaemon, NoDaemonError } from '../control/client.ts';
import { directoryInPlace, makeDirectoryInPlace } from '../control/socket-path.ts';
import { type ConfigOptions, filesOf } from './configuration.ts';
import { CommandError, EXIT } from './exit-status.ts';
import type { Terminal } from './terminal.ts';

/** The directory in which a daemon with this configuration is found; undefined when it has none. */
export function dataDirectoryOf(config: ServiceConfig, cwd: string): string | undefined {
  for (const id of config.service.extensions) {
    const extension = config.extensions.get(id);
    const directory = extension?.factory.dataDirectory?.(extension.config);
    if (directory !== undefined) return resolve(cwd, directory);
  }
  return undefined;
}

/**
 * Where a daemon listens for commands: its data directory, or one for this user that its configuration files
 * name, where it keeps nothing on disk.
 */
export function controlDirectoryOf(
  config: ServiceConfig,
  options: ConfigOptions,
  cwd: string,
): string {
  return dataDirectoryOf(config, cwd) ?? directoryInPlace(nameOf(options, cwd));
}

/** The same, which is there then. */
export function makeControlDirectory(
  config: ServiceConfig,
  options: ConfigOptions,
  cwd: string,
): string {
  return dataDirectoryOf(config, cwd) ?? makeDirectoryInPlace(nameOf(options, cwd));
}

function nameOf(options: ConfigOptions, cwd: string): string {
  return filesOf(options)
    .map((file) => resolve(cwd, file))
    .join('\n');
}

/** Has the running daemon carry out a command. Fails with a sentence when none runs. */
export async function askDaemon(
  config: ServiceConfig,
  options: ConfigOptions,
  terminal: Terminal,
  command: string,
  args: Readonly<Record<string, unknown>> = {},
): Promise<unknown> {
  try {
    return await callDaemon(controlDirectoryOf(config, options, terminal.cwd), command, args);
  } catch (error) {
    if (!(error instanceof NoDaemonError)) throw error;
    const directory = dataDirectoryOf(config, terminal.cwd);
    throw new CommandError(
      EXIT.failed,
      directory === undefined
        ? 'no daemon of this user runs with this configuration here'
        : `no daemon runs with the data directory ${directory}`,
    );
  }
}
