import type { ChildProcess, SpawnOptions } from 'node:child_process';
import { execFileSync, spawn } from 'node:child_process';
import { accessSync, constants, existsSync, readdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';

/** A server, or the browser, that tests start by themselves. */
export type ServerKind = 'redis' | 'postgres' | 'chromium';

/** The servers that this machine has. */
export type Machine = {
  readonly env: Readonly<Record<string, string | undefined>>;
  isExecutable(file: string): boolean;
  /** Names in a directory; none where it does not exist. */
  list(directory: string): readonly string[];
  readonly isRoot: boolean;
};

/** Where a server comes from. */
export type Source =
  | { readonly from: 'directory'; readonly directory: string }
  | { readonly from: 'apt'; readonly package: string }
  | { readonly from: 'nowhere'; readonly sentence: string };

type Server = {
  readonly name: string;
  /** Programs of one directory. */
  readonly programs: readonly string[];
  readonly package: string;
  /** Of a server that is there already. */
  readonly variable: string;
};

const SERVERS: Record<ServerKind, Server> = {
  redis: {
    name: 'Redis',
    programs: ['redis-server'],
    package: 'redis-server',
    variable: 'TRACECTL_TEST_REDIS_URL',
  },
  postgres: {
    name: 'Postgres',
    programs: ['initdb', 'postgres'],
    package: 'postgresql',
    variable: 'TRACECTL_TEST_POSTGRES_URL',
  },
  chromium: {
    name: 'Chromium',
    programs: ['chromium'],
    // The browser alone has no font.
    package: 'chromium fonts-dejavu-core',
    variable: 'TRACECTL_TEST_CHROMIUM',
  },
};

const DEBIAN_POSTGRES = '/usr/lib/postgresql';
const APT = '/usr/bin/apt-get';
const SETPRIV = '/usr/bin/setpriv';

/** The URL of a server that is there for the tests, where one is named. */
export function givenServer(kind: ServerKind, env: Machine['env'] = process.env) {
  const url = env[SERVERS[kind].variable];
  return url === undefined || url === '' ? undefined : url;
}

/** Programs that are there come first, then what can be installed; else a sentence that says what to do. */
export function sourceOf(kind: ServerKind, machine: Machine): Source {
  const { name, programs, package: debianPackage, variable } = SERVERS[kind];
  const directory = placesOf(kind, machine).find((place) =>
    programs.every((program) => machine.isExecutable(join(place, program))),
  );
  if (directory !== undefined) return { from: 'directory', directory };
  if (machine.isRoot && machine.isExecutable(APT)) return { from: 'apt', package: debianPackage };
  const hint = `put ${programs.join(' and ')} on the PATH (Debian: apt-get install ${debianPackage})`;
  return {
    from: 'nowhere',
    sentence: `${name} is not installed, and tests start one of their own: ${hint}. Tests that end no server also take one at ${variable}.`,
  };
}

function placesOf(kind: ServerKind, { env, list }: Machine): string[] {
  const path = (env.PATH ?? '').split(delimiter).filter(Boolean);
  if (kind !== 'postgres') return [...path, '/usr/bin', '/usr/sbin', '/usr/local/bin'];
  const versions = list(DEBIAN_POSTGRES).toSorted((a, b) => Number(b) - Number(a));
  return [...path, ...versions.map((version) => join(DEBIAN_POSTGRES, version, 'bin'))];
}

/**
 * The directory of a server's programs, which are installed where that can be done. Throws a sentence that
 * says what to install.
 */
export function serverBinaries(kind: ServerKind): string {
  const source = sourceOf(kind, thisMachine());
  if (source.from === 'directory') return source.directory;
  if (source.from === 'nowhere') throw new Error(source.sentence);
  const failure = install(source.package);
  const now = sourceOf(kind, thisMachine());
  if (now.from === 'directory') return now.directory;
  throw new Error(
    `${SERVERS[kind].name} could not be installed (apt-get install ${source.package}): ${failure}`,
  );
}

/** Starts a server that ends with this process, also where that is killed (on Linux). */
export function spawnServer(
  binary: string,
  args: readonly string[],
  options: SpawnOptions,
): ChildProcess {
  const [file = binary, ...all] = endingWithThis([binary, ...args]);
  return spawn(file, all, options);
}

/** The command of a program that ends with the process that starts it. The program replaces the process of the command. */
export function endingWithThis(command: readonly string[]): readonly string[] {
  if (!thisMachine().isExecutable(SETPRIV)) return command;
  return [SETPRIV, '--pdeathsig', 'KILL', ...command];
}

function thisMachine(): Machine {
  return {
    env: process.env,
    isExecutable(file) {
      try {
        accessSync(file, constants.X_OK);
        return true;
      } catch {
        return false;
      }
    },
    list: (directory) => (existsSync(directory) ? readdirSync(directory) : []),
    isRoot: process.getuid?.() === 0,
  };
}

/**
 * Several test files may want the same at once: one installs, the others wait, and find it done. Lists of
 * packages that are missing or stale are fetched when it fails, and once more in case the network did.
 * Returns what was said last.
 */
function install(debianPackage: string): string {
  const apt = `${APT} -o DPkg::Lock::Timeout=300 -q`;
  const get = `${apt} install -y --no-install-recommends ${debianPackage}`;
  const lock = join(tmpdir(), 'tracectl-test-servers.lock');
  let said = '';
  for (const command of [get, `${apt} update && ${get}`, `${apt} update; ${get}`]) {
    try {
      execFileSync('flock', ['-w', '600', lock, 'sh', '-c', command], {
        env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
        stdio: ['ignore', 'ignore', 'pipe'],
      });
      return '';
    } catch (error) {
      said = saidBy(error);
    }
  }
  return said;
}

function saidBy(error: unknown): string {
  const { stderr, message } = error as { stderr?: Buffer; message: string };
  const lines = String(stderr ?? '')
    .trim()
    .split('\n');
  return lines.at(-1) || message;
}
