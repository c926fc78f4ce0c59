import { resolve } from 'node:path';
import type { ServiceConfig } from '../config/config.ts';
import { callDaemon, NoDaemonError } from '../control/client.ts';
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

/** Has the running daemon carry out a command. Fails with a sentence when none runs. */
export async function askDaemon(
  config: ServiceConfig,
  terminal: Terminal,
  command: string,
  args: Readonly<Record<string, unknown>> = {},
): Promise<unknown> {
  const directory = dataDirectoryOf(config, terminal.cwd);
  if (directory === undefined) {
    throw new CommandError(
      EXIT.failed,
      'this configuration has no data directory to find a daemon in',
    );
  }
  try {
    return await callDaemon(directory, command, args);
  } catch (error) {
    if (!(error instanceof NoDaemonError)) throw error;
    throw new CommandError(EXIT.failed, `no daemon runs with the data directory ${directory}`);
  }
}
