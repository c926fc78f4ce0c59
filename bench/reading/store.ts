import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import pg from 'pg';
import { FIRST_LOOK_MS } from '../../src/thread/trim.ts';
import type { Answer, Call } from '../../test/e2e/client.ts';
import { eventually } from '../../test/e2e/client.ts';
import type { Daemon, Tree } from '../../test/e2e/daemon.ts';
import { prepareDaemon, total } from '../../test/e2e/daemon.ts';
import type { PostgresServer } from '../../test/helper/postgres-server.ts';
import { postgresServer } from '../../test/helper/postgres-server.ts';
import { cpuMicros, processTree } from '../process-cost.ts';
import { BODY_HEADERS, bodyOf, largeTrace, SPANS_A_BODY } from './data.ts';

export type StoreName = 'sqlite' | 'postgres';

/** A daemon with data in it. */
export type FilledStore = {
  readonly daemon: Daemon;
  /** A request with the key of the project that has the data. */
  call(call: Call): Promise<Answer>;
  readonly key: string;
  /** When the data were made. */
  readonly now: number;
  /** How the data were made, if another way than by requests. */
  readonly how?: string;
  /** Milliseconds of CPU of the daemon and, with Postgres, of its server, since their start. */
  cpuMs(): number;
  /** Resolves when the daemon has collected what its start left, which takes 40 ms of CPU or more once. */
  settled(): Promise<void>;
  readonly bytesOnDisk: () => Promise<number>;
  readonly largeTraceId: string;
  readonly observations: number;
  stop(): Promise<void>;
};

const SENDERS = 4;
const LARGE_TRACE = 10_000;
const FILL_MS = 6 * 3_600_000;
export const FIRST_DATABASE = 'test_0';

/** The file of a kept directory that has its `Filling`. */
export const NOTE = 'filling.json';

type Closer = { teardown(close: () => Promise<void> | void): void };

/** The data of a store; a kept directory has them in a file. */
export type Filling = {
  readonly key: string;
  readonly now: number;
  readonly observations: number;
  /** Those that `grow` copies: all but the ones of the large trace. */
  readonly copied: number;
  /** How the data were made, if another way than by requests. */
  readonly how?: string;
  readonly largeTraceId: string;
};

export type FillOptions = {
  readonly observations: number;
  /** Keeps the store in this directory, and takes the one that is there already. */
  readonly directory?: string;
};

/** Starts a daemon and sends it so many observations; resolves when all are stored and added up. */
export async function fill(
  store: StoreName,
  { observations, directory }: FillOptions,
  say: (text: string) => void,
): Promise<FilledStore> {
  const closers: (() => Promise<void> | void)[] = [];
  const closer: Closer = { teardown: (close) => void closers.push(close) };
  const stop = async (): Promise<void> => {
    for (const close of closers.reverse()) await close();
  };
  const note = directory === undefined ? undefined : join(directory, NOTE);
  const known = note !== undefined && existsSync(note);
  try {
    if (directory !== undefined) mkdirSync(directory, { recursive: true });
    const server = store === 'postgres' ? await postgresServer(closer, [], directory) : undefined;
    if (server !== undefined) closers.push(() => server.stop());
    const url = known ? server?.urlOf(FIRST_DATABASE) : await server?.database();
    const daemon = await prepareDaemon({ edit: (config) => configure(config, url, directory) });
    closers.push(async () => {
      await daemon.end('SIGTERM');
      await daemon.remove();
    });
    await daemon.start();
    const startedAt = performance.now();
    const settled = (): Promise<void> =>
      setTimeout(Math.max(0, startedAt + FIRST_LOOK_MS + SETTLE_MS - performance.now()));
    const counted = new Map<number, number>();
    const cpuMs = () => cpuOf(daemon, server, counted);
    const filling = known
      ? (JSON.parse(readFileSync(note, 'utf8')) as Filling)
      : await filled(daemon, observations, cpuMs, say);
    if (note !== undefined && !known) writeFileSync(note, JSON.stringify(filling));
    const authorization = `Bearer ${filling.key}`;
    return {
      ...{ daemon, cpuMs, settled, stop, ...filling },
      call: (call) => daemon.call({ ...call, headers: { authorization, ...call.headers } }),
      bytesOnDisk: () => bytesOnDisk(daemon, server, directory),
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function filled(
  daemon: Daemon,
  observations: number,
  cpuMs: () => number,
  say: (text: string) => void,
): Promise<Filling> {
  const before = cpuMs();
  const now = Date.now();
  const large = largeTrace(LARGE_TRACE, now);
  const bodies = Math.ceil(observations / SPANS_A_BODY);
  let sent = 0;
  const sender = async (): Promise<void> => {
    while (sent < bodies) {
      const number = sent++;
      await post(daemon, bodyOf(number, number / bodies, now));
      if (number % 1000 === 999) say(`${(number + 1) * SPANS_A_BODY} observations are accepted`);
    }
  };
  await Promise.all(Array.from({ length: SENDERS }, sender));
  for (const body of large.bodies) await post(daemon, body);
  await isStored(daemon);
  const all = bodies * SPANS_A_BODY + LARGE_TRACE;
  const micros = (1000 * (cpuMs() - before)) / all;
  say(`${all} observations are stored, ${micros.toFixed(1)} µs of CPU each`);
  const copied = bodies * SPANS_A_BODY;
  return { key: daemon.key, now, observations: all, copied, largeTraceId: large.id };
}

/** The embedded pipelines with costs and without limits, on the store. */
function configure(config: Tree, url: string | undefined, directory: string | undefined): void {
  const at = (...path: string[]) =>
    path.reduce((tree, name) => tree[name] as Tree, config) as Record<string, unknown>;
  const pipelines = at('service', 'pipelines') as Record<string, Tree>;
  at('processors').cost = {};
  Object.assign(pipelines['traces/store'] ?? {}, { processors: ['normalization', 'cost'] });
  const organization = { events_per_month: 'unlimited', bytes_per_hour: 'unlimited' };
  if (url === undefined) {
    const place = directory === undefined ? {} : { directory };
    Object.assign(at('extensions', 'sqlite'), { organization, ...place });
    return;
  }
  const extensions = at('extensions');
  delete extensions.sqlite;
  extensions.postgres = { url, organization };
  Object.assign(at('extensions', 'admin'), { store: 'postgres', token: ADMIN_TOKEN });
  for (const name of ['auth', 'quotas']) at('processors', name).store = 'postgres';
  at('connectors', 'disk_queue').store = 'postgres';
  config.exporters = { postgres: { store: 'postgres' } };
  at('service').extensions = ['postgres', 'admin', 'health_check'];
  Object.assign(pipelines['traces/store'] ?? {}, { exporters: ['postgres'] });
}

const ADMIN_TOKEN = 'an-admin-token-of-thirty-two-characters';

async function post(daemon: Daemon, body: Buffer): Promise<void> {
  for (;;) {
    const { status, body: answer } = await daemon.call({
      method: 'POST',
      path: '/v1/traces',
      headers: BODY_HEADERS,
      body,
      timeoutMs: 60_000,
    });
    if (status === 200 && !answer.includes('rejectedSpans')) return;
    if (status !== 429 && status !== 503) throw new Error(`${status} ${answer.toString()}`);
    await setTimeout(500);
  }
}

/** The queue is empty, and the background work of the store had its time. */
async function isStored(daemon: Daemon): Promise<void> {
  await eventually(
    () => daemon.metrics(),
    (samples) => total(samples, 'tracectl_queue_entries') === 0,
    'an empty queue',
    FILL_MS,
  );
  await setTimeout(SETTLE_MS);
}

const SETTLE_MS = 5_000;

/** `counted`: of each process, so that the sum does not shrink when a process or a thread ends. */
function cpuOf(
  daemon: Daemon,
  server: PostgresServer | undefined,
  counted: Map<number, number>,
): number {
  const pids = [daemon.pid(), ...(server === undefined ? [] : processTree(server.pid()))];
  for (const pid of pids) counted.set(pid, Math.max(counted.get(pid) ?? 0, livingCpu(pid)));
  return [...counted.values()].reduce((sum, micros) => sum + micros, 0) / 1000;
}

/** A backend of Postgres may end at any time. */
function livingCpu(pid: number): number {
  try {
    return cpuMicros(pid);
  } catch {
    return 0;
  }
}

/** The bytes of a store in SQLite, without the file that it keeps for a full disk. */
export function fileBytes(directory: string): number {
  return readdirSync(directory)
    .filter((file) => file.startsWith('store.db'))
    .reduce((sum, file) => sum + statSync(join(directory, file)).size, 0);
}

async function bytesOnDisk(
  daemon: Daemon,
  server: PostgresServer | undefined,
  directory = join(daemon.directory, 'data'),
): Promise<number> {
  if (server === undefined) return fileBytes(directory);
  const client = new pg.Client({ connectionString: urlIn(daemon) });
  await client.connect();
  try {
    const { rows } = await client.query('SELECT pg_database_size(current_database()) AS size');
    return Number(rows[0].size);
  } finally {
    await client.end();
  }
}

function urlIn({ configPath }: Daemon): string {
  const { extensions } = JSON.parse(readFileSync(configPath, 'utf8')) as Tree;
  return ((extensions as Tree).postgres as { url: string }).url;
}
