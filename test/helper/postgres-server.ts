import type { ChildProcess } from 'node:child_process';
import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import {
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statfsSync,
  statSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { freePort } from './free-ports.ts';
import type { Teardown } from './redis-server.ts';
import { givenServer, serverBinaries, spawnServer } from './server-binaries.ts';

/** A Postgres server of one test file. */
export type PostgresServer = {
  /** Creates an empty database, or a copy of one that nothing uses; resolves with its URL. */
  database(copied?: string): Promise<string>;
  /** The URL of a database that is there. */
  urlOf(name: string): string;
  /** Ends it like a crash; `start` brings it back on the same port. */
  kill(): Promise<void>;
  /** Ends it in order: its statistics are saved. */
  stop(): Promise<void>;
  start(): Promise<void>;
  /** Stops all its processes: connections stay open and are not answered. */
  freeze(): void;
  thaw(): void;
  /** The pid of the server, whose child processes serve the connections. */
  pid(): number;
  readonly port: number;
  /**
   * Restarts it, and starts a standby on a copy of its data; the standby ends with the test. It follows through the port
   * of a relay, if one is given.
   */
  standby(name: string, through?: number): Promise<PostgresServer>;
};

/** Only bounds a server that hangs: a busy machine may take seconds to answer. */
const START_MS = 60_000;

/** A server on which a test file creates databases, and which it does not end. */
export type PostgresDatabases = Pick<PostgresServer, 'database'>;

/** On the server given to the tests, or on one that starts for this file. The databases are dropped after the test. */
export async function postgresDatabases(t: Teardown): Promise<PostgresDatabases> {
  const given = givenServer('postgres');
  if (given === undefined) return postgresServer(t);
  const made: string[] = [];
  t.teardown(async () => {
    for (const name of made) await query(given, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
  });
  return {
    async database(copied) {
      const name = `tracectl_test_${process.pid}_${randomUUID().slice(0, 8)}`;
      await query(given, creation(name, copied));
      made.push(name);
      const url = new URL(given);
      url.pathname = `/${name}`;
      return url.href;
    },
  };
}

/** A copy of the files takes a third of the time of one that is written to the log, if nothing is synced. */
function creation(name: string, copied: string | undefined, strategy = ''): string {
  const template = copied === undefined ? '' : ` TEMPLATE ${new URL(copied).pathname.slice(1)}`;
  return `CREATE DATABASE ${name}${template}${strategy}`;
}

const TEMPLATES = fileURLToPath(new URL('../../.tap/postgres', import.meta.url));
/** A contract suite makes 100,000 files; creating and removing them on a disk takes half of its time. */
const UNSYNCED = ['fsync=off', 'full_page_writes=off'];

/**
 * On a free port in a temporary directory, without syncing by default; it ends with the test. A directory that is given is kept,
 * with the databases in it.
 */
export async function postgresServer(
  t: Teardown,
  settings: readonly string[] = UNSYNCED,
  kept?: string,
): Promise<PostgresServer> {
  const isSynced = !settings.includes('fsync=off');
  const directory = kept ?? mkdtempSync(join(isSynced ? tmpdir() : roomyMemory(), PREFIX));
  const data = join(directory, 'data');
  const owner = process.getuid?.() === 0 ? ownerOf() : undefined;
  if (owner !== undefined) chownSync(directory, owner.uid, owner.gid);
  const as = { ...owner, cwd: directory, stdio: 'ignore' as const };
  if (!existsSync(data)) initialize(data, as);
  if (kept === undefined) t.teardown(() => rmSync(directory, { recursive: true, force: true }));
  return serverIn(t, directory, data, settings, as);
}

const MEMORY = '/dev/shm';
/** Room for the data of several test files. */
const ROOMY_BYTES = 6 * 1024 ** 3;
const PREFIX = 'tracectl-postgres-';
/** A server has written its file `postmaster.pid` by then. */
const STARTED_MS = 600_000;

/** The directory of a file system in memory, if it is roomy; else that of temporary files. */
function roomyMemory(): string {
  try {
    const { bavail, bsize } = statfsSync(MEMORY);
    return bavail * bsize >= ROOMY_BYTES ? MEMORY : tmpdir();
  } catch {
    return tmpdir();
  }
}

/** Removes the data in memory of test processes that were killed. */
export function removeLeftData(): void {
  if (!existsSync(MEMORY)) return;
  for (const name of readdirSync(MEMORY).filter((each) => each.startsWith(PREFIX))) {
    const directory = join(MEMORY, name);
    const found = statSync(directory, { throwIfNoEntry: false });
    if (found === undefined || Date.now() - found.mtimeMs < STARTED_MS) continue;
    const lock = join(directory, 'data/postmaster.pid');
    const [pid = ''] = existsSync(lock) ? readFileSync(lock, 'utf8').split('\n') : [];
    if (!existsSync(`/proc/${pid || 'none'}`)) rmSync(directory, { recursive: true, force: true });
  }
}

/** Copies the data that `initdb` made for an earlier server. */
function initialize(data: string, as: As): void {
  const initdb = join(serverBinaries('postgres'), 'initdb');
  const made = join(TEMPLATES, `${statSync(initdb).mtimeMs}-${as.uid ?? 'user'}`);
  if (existsSync(made)) {
    execFileSync('cp', ['-a', made, data]);
    return;
  }
  execFileSync(initdb, ['-N', '-A', 'trust', '-U', 'test', '-D', data], as);
  const copy = `${made}-${process.pid}`;
  mkdirSync(TEMPLATES, { recursive: true });
  execFileSync('cp', ['-a', data, copy]);
  try {
    renameSync(copy, made);
  } catch {
    // Another test file has made it in the meantime.
    rmSync(copy, { recursive: true, force: true });
  }
}

type As = { readonly uid?: number; readonly gid?: number; cwd: string; stdio: 'ignore' };

/** Starts a server on existing data. */
async function serverIn(
  t: Teardown,
  directory: string,
  data: string,
  settings: readonly string[],
  as: As,
): Promise<PostgresServer> {
  const binaries = serverBinaries('postgres');
  const port = await freePort();
  const strategy = settings.includes('fsync=off') ? ' STRATEGY file_copy' : '';
  const urlOf = (name: string): string => `postgres://test@127.0.0.1:${port}/${name}`;
  const options = [
    'listen_addresses=127.0.0.1',
    `unix_socket_directories=${directory}`,
    ...settings,
  ].flatMap((setting) => ['-c', setting]);
  let child: ChildProcess | undefined;
  let databases = 0;

  async function start(): Promise<void> {
    const args = ['-D', data, '-p', `${port}`, ...options];
    child = spawnServer(join(binaries, 'postgres'), args, as);
    await answers(urlOf('postgres'));
  }

  async function end(signal: NodeJS.Signals): Promise<void> {
    const running = child;
    child = undefined;
    if (running === undefined || running.exitCode !== null) return;
    const ended = new Promise((resolve) => running.once('exit', resolve));
    toAll(running, 'SIGCONT');
    if (signal === 'SIGKILL') toAll(running, signal);
    else running.kill(signal);
    await ended;
  }

  t.teardown(() => end('SIGQUIT'));
  await start();
  return {
    async database(copied) {
      const name = `test_${databases++}`;
      await query(urlOf('postgres'), creation(name, copied, strategy));
      return urlOf(name);
    },
    urlOf,
    kill: () => end('SIGKILL'),
    stop: () => end('SIGINT'),
    start,
    freeze: () => toAll(child, 'SIGSTOP'),
    thaw: () => toAll(child, 'SIGCONT'),
    pid: () => child?.pid ?? 0,
    port,
    async standby(name, through = port) {
      const copy = join(directory, name);
      // Copied while it is stopped: tools that copy a running server are not installed everywhere.
      await end('SIGINT');
      execFileSync('cp', ['-a', data, copy], as);
      execFileSync('touch', [join(copy, 'standby.signal')], as);
      await start();
      const from = `host=127.0.0.1 port=${through} user=test application_name=${name}`;
      return serverIn(t, directory, copy, [...settings, `primary_conninfo=${from}`], as);
    },
  };
}

/** Signals the server and every process that serves a connection. */
function toAll(child: ChildProcess | undefined, signal: NodeJS.Signals): void {
  if (child?.pid === undefined) return;
  const served = readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8');
  for (const pid of [child.pid, ...served.split(' ').filter(Boolean).map(Number)]) {
    try {
      process.kill(pid, signal);
    } catch {
      // The process has already ended.
    }
  }
}

async function query(connectionString: string, text: string): Promise<void> {
  const client = new pg.Client({ connectionString, connectionTimeoutMillis: START_MS });
  await client.connect();
  try {
    await client.query(text);
  } finally {
    await client.end();
  }
}

async function answers(url: string): Promise<void> {
  const deadline = Date.now() + START_MS;
  for (;;) {
    try {
      return await query(url, 'SELECT 1');
    } catch (error) {
      if (Date.now() > deadline) throw error;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

/** The user to run Postgres as, which refuses to run as root: `postgres` of the package, else the unprivileged user of the system. */
function ownerOf(): { uid: number; gid: number } {
  const id = (flag: string, name: string): number =>
    Number(execFileSync('id', [flag, name], { stdio: ['ignore', 'pipe', 'ignore'] }).toString());
  const of = (name: string) => ({ uid: id('-u', name), gid: id('-g', name) });
  try {
    return of('postgres');
  } catch {
    return of('nobody');
  }
}
