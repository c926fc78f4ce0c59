import { readdir } from 'node:fs/promises';
import { resolve } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { ServiceConfig } from '../config/config.ts';
import { callDaemon, NoDaemonError } from '../control/client.ts';
import { directoryInPlace, makeDirectoryInPlace } from '../control/socket-path.ts';
import { ownerOf } from '../sqlite/directory-owner.ts';
import { type ConfigOptions, filesOf } from './configuration.ts';
import { CommandError, EXIT } from './exit-status.ts';
import type { Terminal } from './terminal.ts';

/** The data directory of a daemon with this configuration; undefined when it has none. */
function dataDirectoryOf(config: ServiceConfig, cwd: string): string | undefined {
  for (const id of config.service.extensions) {
    const extension = config.extensions.get(id);
    const directory = extension?.factory.dataDirectory?.(extension.config);
    if (directory !== undefined) return resolve(cwd, directory);
  }
  return undefined;
}

/** The place in which a command runs: relative paths start there, and variables fill the configuration. */
type Place = Pick<Terminal, 'cwd' | 'env'>;

/**
 * The directory of a daemon's control socket: its data directory, or, for a daemon that has none, a
 * directory of this user that is named after the configuration files and `TRACECTL_PORT_OFFSET`, which the
 * shipped configurations use to run several daemons from the same files on one machine.
 */
export function controlDirectoryOf(
  config: ServiceConfig,
  options: ConfigOptions,
  place: Place,
): string {
  return dataDirectoryOf(config, place.cwd) ?? directoryInPlace(nameOf(options, place));
}

/** As `controlDirectoryOf`, and creates the directory of a daemon without a data directory. */
export function makeControlDirectory(
  config: ServiceConfig,
  options: ConfigOptions,
  place: Place,
): string {
  return dataDirectoryOf(config, place.cwd) ?? makeDirectoryInPlace(nameOf(options, place));
}

function nameOf(options: ConfigOptions, { cwd, env }: Place): string {
  const files = filesOf(options).map((file) => resolve(cwd, file));
  const offset = env.TRACECTL_PORT_OFFSET ?? '';
  return [...files, ...(offset === '' ? [] : [`+${offset}`])].join('\n');
}

/** How often, and how long after, a command is tried again while a daemon starts or stops: for about five seconds. */
export const TRIES = 25;
export const BETWEEN_TRIES_MS = 200;

/** Sends a command to the running daemon. Waits for one that starts or stops if it has a data directory. Throws a `CommandError` when no daemon runs. */
export async function askDaemon(
  config: ServiceConfig,
  options: ConfigOptions,
  terminal: Terminal,
  command: string,
  args: Readonly<Record<string, unknown>> = {},
): Promise<unknown> {
  const directory = dataDirectoryOf(config, terminal.cwd);
  for (let left = TRIES; ; left--) {
    try {
      return await callDaemon(controlDirectoryOf(config, options, terminal), command, args);
    } catch (error) {
      if (!(error instanceof NoDaemonError)) throw error;
    }
    const owner = directory === undefined ? undefined : await ownerOf(directory);
    if (owner === undefined || left === 0) {
      throw new CommandError(EXIT.failed, await absence(directory, owner));
    }
    await pause(BETWEEN_TRIES_MS);
  }
}

async function absence(directory: string | undefined, owner: number | undefined): Promise<string> {
  if (directory === undefined)
    return 'no daemon of this user runs with this configuration. Start it with "tracectl run"';
  if (owner !== undefined)
    return `the process ${owner} has the data directory ${directory} and answers no command: it starts or stops, or is another command. Retry`;
  if (await isClosed(directory))
    return `this user may not open the data directory ${directory}, so a daemon cannot be found in it. Run the command as the user of the daemon`;
  return `no daemon runs with the data directory ${directory}. Start it with "tracectl run"`;
}

async function isClosed(directory: string): Promise<boolean> {
  try {
    await readdir(directory);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EACCES';
  }
}
