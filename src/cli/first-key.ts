import { join } from 'node:path';
import type { Logger } from '../component/component.ts';
import type { ServiceConfig } from '../config/config.ts';
import { writePrivateFile } from '../control/private-file.ts';
import type { FirstProject } from '../tenancy/bootstrap.ts';
import type { ConfigOptions } from './configuration.ts';
import { makeControlDirectory } from './daemon.ts';
import type { Terminal } from './terminal.ts';

const FILE = 'first-key';

/** The project of a new store, and where its key is: in the output, or in a file. */
export type PlacedKey = {
  readonly project: FirstProject['project'];
  readonly token: string;
  /** Undefined if the output may have the key. */
  readonly file: string | undefined;
};

/**
 * Decides where the key of a new store is shown. Only a person at a terminal reads the output once: a journal, a
 * container's log or a pipe would keep the key, so it goes to a file that only this user can read.
 */
export async function placeFirstKey(
  { project, token }: FirstProject,
  mayPrint: boolean,
  config: ServiceConfig,
  options: ConfigOptions,
  place: Pick<Terminal, 'cwd' | 'env'>,
): Promise<PlacedKey> {
  if (mayPrint) return { project, token, file: undefined };
  const file = join(makeControlDirectory(config, options, place), FILE);
  await writePrivateFile(file, `${token}\n`);
  return { project, token, file };
}

/** Says on stderr where the key of a new store is: no later start knows it. */
export async function sayFirstKey(
  first: FirstProject,
  config: ServiceConfig,
  options: ConfigOptions,
  terminal: Terminal,
): Promise<void> {
  // A terminal has a `screen` on stderr.
  const mayPrint = options.printKey === true || terminal.screen !== undefined;
  const { project, token, file } = await placeFirstKey(first, mayPrint, config, options, terminal);
  const place =
    file === undefined ? `the key ${token}; it is not shown again.` : `a key in the file ${file}.`;
  terminal.err(
    `The store is new. Created the project ${project.name} (${project.id}) with ${place}`,
  );
}

/** As `sayFirstKey`, for a daemon that ends before it is ready; `first` is undefined for a store that was there. */
export async function sayKeyOfFailedStart(
  first: FirstProject | undefined,
  config: ServiceConfig,
  options: ConfigOptions,
  terminal: Terminal,
  logger: Logger,
): Promise<void> {
  try {
    if (first !== undefined) await sayFirstKey(first, config, options, terminal);
  } catch (error) {
    // The error of the start is the one to show.
    logger.warn({ err: error }, 'Key of the new store could not be saved');
  }
}

/** The key as a word of a POSIX shell. The value of a file stays out of the printed text. */
export function keyInShell({ token, file }: PlacedKey): string {
  return file === undefined ? token : `$(cat '${file.replaceAll("'", `'\\''`)}')`;
}
