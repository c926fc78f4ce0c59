import { type ChildProcess, spawn } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { fileURLToPath } from 'node:url';
import { eventually, send } from '../test/e2e/client.ts';
import {
  type Daemon,
  type DaemonOptions,
  prepareDaemon,
  type Tree,
  total,
} from '../test/e2e/daemon.ts';
import { type Population, populate, populateOld } from './population.ts';

/** A server under load: its process, its port, its key, and how to know that it has nothing left to do. */
export type Server = {
  readonly pid: number;
  readonly port: number;
  /** Undefined where it does not serve gRPC. */
  readonly grpcPort?: number;
  readonly key: string;
  /** Set where many send: their keys, to be used in turn. */
  readonly keys?: readonly string[];
  /** Resolves when nothing that was accepted still waits to be stored. */
  idle(): Promise<void>;
  /** Observations that were removed since it started; a floor removes none. */
  removed?(): Promise<number>;
  stop(): Promise<void>;
};

const FLOOR = fileURLToPath(new URL('./floor.ts', import.meta.url));

/** `nextPort` is the destination of a `hop`. */
export async function startFloor(
  mode: 'otlp' | 'native' | 'store' | 'hop',
  nextPort = 0,
): Promise<Server> {
  const args = [FLOOR, mode, String(nextPort)];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const port = await firstLine(child);
  const base = `http://127.0.0.1:${port}`;
  return {
    pid: child.pid ?? 0,
    port: Number(port),
    key: 'ws_floor',
    idle: async () => {
      await eventually(
        () => send(base, { path: '/' }),
        (answer) => answer.body.toString() === '0',
        'an empty backlog',
        60_000,
      );
    },
    stop: () => ended(child),
  };
}

/**
 * A daemon that accepts and keeps what it accepted in its queue, as it does while a destination is away:
 * the exporter behind the queue has a store of its own, which this process keeps locked, and the queue
 * waits an hour before it tries again. So a window holds the way to the acknowledgement and nothing else.
 */
export async function startAccepting(options: AcceptingOptions = {}): Promise<Server> {
  const daemon = await prepareDaemon({
    queue: { initial_interval: '1h', max_interval: '1h' },
    edit: (config) => {
      const { extensions, service } = config as Record<string, Tree>;
      const { directory } = (extensions?.sqlite ?? {}) as { directory: string };
      Object.assign(extensions ?? {}, { 'sqlite/away': { directory: `${directory}-away` } });
      config.exporters = { sqlite: { store: 'sqlite/away' } };
      Object.assign(service ?? {}, {
        extensions: ['sqlite', 'sqlite/away', 'health_check'],
        ...(options.forgets === true ? { repeated_requests: { enabled: false } } : {}),
      });
      if (options.isOpen === true) removeGuards(config);
      if (options.overGrpc === true) serveGrpc(config);
      if (options.redacts === true) addRedaction(config);
      if (options.compresses === true) addCompression(config);
    },
  });
  const keys = await filled(join(daemon.directory, 'data'), options);
  await daemon.start();
  const locks = lockDatabases(join(daemon.directory, 'data-away'));
  const server = serverOf(daemon);
  return {
    ...server,
    key: keys[0] ?? server.key,
    keys,
    stop: async () => {
      for (const lock of locks) lock.close();
      await server.stop();
    },
  };
}

function filled(directory: string, options: AcceptingOptions): Promise<string[]> | string[] {
  const { population, expired } = options;
  if (population !== undefined) return populate(directory, population);
  return expired === undefined ? [] : populateOld(directory, expired, EXPIRED_DAYS);
}

/** More than the plan of a new organization keeps. */
const EXPIRED_DAYS = 500;

export type AcceptingOptions = {
  /** Without keys, limits and their accounting: whatever comes belongs to one project. */
  readonly isOpen?: boolean;
  /** Beside HTTP. */
  readonly overGrpc?: boolean;
  /** With the processor `redaction` as it is by default. */
  readonly redacts?: boolean;
  readonly compresses?: boolean;
  /** Without recognizing repeated requests. */
  readonly forgets?: boolean;
  readonly population?: Population;
  /** So many observations are past their time when it starts. */
  readonly expired?: number;
};

function removeGuards(config: Tree): void {
  const { receivers, service } = config as Record<string, Record<string, Tree>>;
  for (const receiver of Object.values(receivers ?? {})) receiver.project = 'proj_bench';
  const accept = service?.pipelines?.['traces/accept'] as Tree;
  const guards = ['auth', 'quotas'];
  accept.processors = (accept.processors as string[]).filter((id) => !guards.includes(id));
}

function serveGrpc(config: Tree): void {
  const { receivers } = config as Record<string, Record<string, Tree>>;
  Object.assign(receivers?.otlp?.protocols ?? {}, { grpc: { endpoint: '127.0.0.1:0' } });
}

function addRedaction(config: Tree): void {
  const { processors, service } = config as Record<string, Record<string, Tree>>;
  Object.assign(processors ?? {}, { redaction: {} });
  const accept = service?.pipelines?.['traces/accept'] as Tree;
  const [auth, ...others] = accept.processors as string[];
  accept.processors = [auth, 'redaction', ...others];
}

/** Adds the processor `compression` in front of `quotas`. */
export function addCompression(config: Tree): void {
  const { processors, service } = config as Record<string, Record<string, Tree>>;
  Object.assign(processors ?? {}, { compression: {} });
  const accept = service?.pipelines?.['traces/accept'] as { processors: string[] };
  accept.processors.splice(-1, 0, 'compression');
}

function lockDatabases(directory: string): DatabaseSync[] {
  const files = readdirSync(directory).filter((file) => /\.(db|sqlite3?)$/.test(file));
  if (files.length === 0) throw new Error(`no database in ${directory}`);
  return files.map((file) => {
    const database = new DatabaseSync(join(directory, file), { timeout: 5000 });
    database.exec('BEGIN IMMEDIATE');
    return database;
  });
}

export async function startTracectl(options: DaemonOptions): Promise<Server> {
  const daemon = await prepareDaemon(options);
  await daemon.start();
  return serverOf(daemon);
}

function serverOf(daemon: Daemon): Server {
  const grpcPort = /:(\d+)\n +gRPC /.exec(daemon.stdout())?.[1];
  return {
    ...(grpcPort === undefined ? {} : { grpcPort: Number(grpcPort) }),
    pid: daemon.pid(),
    port: Number(new URL(daemon.base).port),
    key: daemon.key,
    idle: async () => {
      await eventually(
        () => daemon.metrics(),
        (samples) => total(samples, 'tracectl_queue_entries') === 0,
        'an empty queue',
        120_000,
      );
    },
    removed: async () => total(await daemon.metrics(), 'tracectl_store_removed_observations_total'),
    stop: () => daemon.remove(),
  };
}

function firstLine(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    child.once('exit', (code) => reject(new Error(`the floor server ended with ${code}`)));
    child.stdout?.once('data', (text: Buffer) => resolve(text.toString().trim()));
  });
}

function ended(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    child.removeAllListeners('exit');
    child.once('exit', () => resolve());
    child.kill('SIGTERM');
  });
}
