import { join } from 'node:path';
import type { ServiceConfig } from '../config/config.ts';
import { finishPrivateFile, writePrivateFile } from '../control/private-file.ts';
import type { FirstProject } from '../tenancy/bootstrap.ts';
import { hasValidChecksum } from '../tenancy/token.ts';
import type { ConfigOptions } from './configuration.ts';
import { controlDirectoryOf, makeControlDirectory } from './daemon.ts';
import type { Terminal } from './terminal.ts';

const FILE = 'first-key';

/** The project of a new store, and the place of its key. */
export type PlacedKey = { readonly project: FirstProject['project'] } & (
  | { readonly place: 'output'; readonly token: string }
  | { readonly place: 'file'; readonly file: string }
  /** The file could not be written. */
  | { readonly place: 'unsaved'; readonly reason: string }
);

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
  if (mayPrint) return { project, place: 'output', token };
  try {
    const file = join(makeControlDirectory(config, options, place), FILE);
    await writePrivateFile(file, `${token}\n`);
    return { project, place: 'file', file };
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return { project, place: 'unsaved', reason };
  }
}

/**
 * Puts the key of a first start that was killed while it saved it into its file. Resolves with the file, or undefined if
 * there is no such key.
 */
export async function recoverFirstKey(
  config: ServiceConfig,
  options: ConfigOptions,
  place: Pick<Terminal, 'cwd' | 'env'>,
): Promise<string | undefined> {
  const file = join(controlDirectoryOf(config, options, place), FILE);
  const isKey = (text: string): boolean => hasValidChecksum(text.trimEnd());
  // A start without the key goes on: a command makes another one.
  return (await finishPrivateFile(file, isKey).catch(() => false)) ? file : undefined;
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
  const key = await placeFirstKey(first, mayPrint, config, options, terminal);
  const { name, id } = key.project;
  terminal.err(`The store is new. Created the project ${name} (${id}) ${keyText(key)}`);
}

function keyText(key: PlacedKey): string {
  switch (key.place) {
    case 'output':
      return `with the key ${key.token}; it is not shown again.`;
    case 'file':
      return `with a key in the file ${key.file}.`;
    case 'unsaved':
      return `with a key that could not be saved: ${key.reason}. Create another one: ${commandForKey(key)}`;
  }
}

/** The command that makes a key in place of one that could not be saved. */
export function commandForKey({ project }: PlacedKey): string {
  return `tracectl keys create --project ${project.id}, with the same --config.`;
}
