import { constants } from 'node:fs';
import { readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { FirstTokens } from '../component/first-tokens.ts';
import type { ServiceConfig } from '../config/config.ts';
import { writePrivateFile } from '../control/private-file.ts';
import type { FirstInStore } from '../supervisor/messages.ts';
import { BOOTSTRAP } from '../tenancy/bootstrap.ts';
import { hasValidChecksum, shownPrefix } from '../tenancy/token.ts';
import type { ConfigOptions } from './configuration.ts';
import { makeControlDirectory } from './daemon.ts';
import type { Terminal } from './terminal.ts';

const FILE = 'first-key';
/** A token that no user has seen yet: `first-key-ws_Ab3dE6gH`. */
const KEPT = /^first-key-ws_[0-9A-Za-z]{8}$/;

/** The project of a new store, and the place of its key. */
export type PlacedKey = Pick<FirstInStore, 'project' | 'isRecovered'> &
  Place & {
    /** The id of its store if the configuration has several. */
    readonly store: string | undefined;
  };

type Place =
  | { readonly place: 'output'; readonly token: string }
  | { readonly place: 'file'; readonly file: string }
  /** The file could not be written. */
  | { readonly place: 'unsaved'; readonly reason: string };

type KeyPlace = {
  readonly config: ServiceConfig;
  readonly options: ConfigOptions;
  readonly terminal: Terminal;
};

/** Keeps tokens as private files beside the control socket, until `showFirstKey` has shown them. No failure of that prevents a start. */
export function firstTokens({ config, options, terminal }: KeyPlace): FirstTokens {
  // Refuses a directory that another user could change.
  const directory = (): string => makeControlDirectory(config, options, terminal);
  const fileOf = (token: string): string => join(directory(), `${FILE}-${shownPrefix(token)}`);
  return {
    async keep(token) {
      try {
        await writePrivateFile(fileOf(token), `${token}\n`);
      } catch {
        // The key is saved once more when it is shown, and that says why it cannot be.
      }
    },
    async kept() {
      try {
        const place = directory();
        const names = (await readdir(place)).filter((name) => KEPT.test(name));
        const tokens = await Promise.all(names.map((name) => readToken(join(place, name))));
        return tokens.filter(hasValidChecksum);
      } catch {
        return [];
      }
    },
    async forget(token) {
      try {
        await rm(fileOf(token), { force: true });
      } catch {
        // A token that stays is shown again by the next start.
      }
    },
  };
}

/** Empty if the file cannot be read. */
async function readToken(file: string): Promise<string> {
  const flag = constants.O_RDONLY | constants.O_NOFOLLOW;
  return (await readFile(file, { encoding: 'utf8', flag }).catch(() => '')).trimEnd();
}

/**
 * Shows the start, and the keys of new stores that no user has seen yet. Only a person at a terminal reads the output once: a journal, a
 * container's log or a pipe would keep the key, so it goes to a file that only this user can read.
 */
export async function showFirstKey(
  firsts: readonly FirstInStore[],
  place: KeyPlace,
  show: (keys: readonly PlacedKey[]) => void,
): Promise<void> {
  await showIn(firsts, place.terminal.isOutShown === true, place, show);
}

/** Says on stderr where the keys of new stores are. */
export async function sayFirstKey(firsts: readonly FirstInStore[], place: KeyPlace): Promise<void> {
  const { terminal } = place;
  // A terminal has a `screen` on stderr.
  await showIn(firsts, terminal.screen !== undefined, place, (keys) => {
    for (const key of keys) {
      const created = key.isRecovered ? 'An earlier start created' : 'The store is new. Created';
      terminal.err(`${created} the project ${projectText(key)} ${keyText(key)}`);
    }
  });
}

async function showIn(
  firsts: readonly FirstInStore[],
  isTerminal: boolean,
  place: KeyPlace,
  show: (keys: readonly PlacedKey[]) => void,
): Promise<void> {
  const mayPrint = place.options.printKey === true || isTerminal;
  const keys: (PlacedKey & { readonly token: string })[] = [];
  const stores = storesOf(place.config);
  for (const { project, isRecovered, token, store } of firsts) {
    const placed = mayPrint
      ? ({ place: 'output', token } as const)
      : await saveKey(token, !isRecovered && isAlone(stores, place.config), place);
    const named = stores.length > 1 ? store : undefined;
    keys.push({ project, isRecovered, store: named, ...placed, token });
  }
  show(keys);
  for (const { place: shownIn, token } of keys) {
    if (shownIn !== 'unsaved') await firstTokens(place).forget(token);
  }
}

/** The ids of the stores of a configuration, new ones or not. */
function storesOf({ service, extensions }: ServiceConfig): readonly string[] {
  return service.extensions.filter((id) =>
    extensions.get(id)?.factory.provides.includes(BOOTSTRAP),
  );
}

/** The only store, in files: no other store can have left a key in its directory. */
function isAlone([id, ...others]: readonly string[], { extensions }: ServiceConfig): boolean {
  const store = id === undefined ? undefined : extensions.get(id);
  return others.length === 0 && store?.factory.dataDirectory?.(store.config) !== undefined;
}

/** A key that does not replace the one in the file is saved beside it. */
async function saveKey(
  token: string,
  replaces: boolean,
  { config, options, terminal }: KeyPlace,
): Promise<Place> {
  try {
    const usual = join(makeControlDirectory(config, options, terminal), FILE);
    const found = replaces ? '' : await readToken(usual);
    const file = found === '' || found === token ? usual : `${usual}.${shownPrefix(token)}`;
    await writePrivateFile(file, `${token}\n`);
    return { place: 'file', file };
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return { place: 'unsaved', reason };
  }
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

/** The project of a key, by name and id, and its store if there are several. */
export function projectText({ project: { name, id }, store }: PlacedKey): string {
  return `${name} (${id})${store === undefined ? '' : ` in the store ${store}`}`;
}

/** The command that makes a key in place of one that could not be saved. */
export function commandForKey({ project, store }: PlacedKey): string {
  const of = store === undefined ? '' : ` --store ${store}`;
  return `tracectl keys create --project ${project.id}${of}, with the same --config.`;
}
