import { execFileSync, spawn } from 'node:child_process';
import { chownSync, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import pg from 'pg';
import type { Test } from 'tap';
import { queue as migration } from '../../extensions/postgres/migrations/0003-queue.ts';
import type { QueueDatabase } from '../../extensions/postgres/queue-database.ts';
import type { PostgresQueues } from '../../extensions/postgres/queue-storage.ts';
import { openQueues } from '../../extensions/postgres/queue-storage.ts';
import type { Clock } from '../../src/component/component.ts';
import type { RawBatch } from '../../src/model/batch.ts';
import { RetryableError } from '../../src/model/errors.ts';
import type { BatchRecord } from '../../src/queue/record.ts';
import { batchOf, recordOf } from '../../src/queue/record.ts';
import { freePort } from './redis-server.ts';
import { recordingLogger } from './settings.ts';

/** Where batches are kept. */
export const KEPT = 'CREATE TABLE kept (id text PRIMARY KEY, record text, body bytea);';

/** The queues of a store, with the least of a store behind them. */
export type QueuePlace = {
  readonly pool: pg.Pool;
  readonly deleted: Set<string>;
  /** One process more that shares the queues. */
  open(clock: Clock): Promise<PostgresQueues>;
  /** What a store that is away does. */
  fail(isAway: boolean): void;
};

export async function queueDatabase(t: Test, url: string): Promise<QueuePlace> {
  const pool = new pg.Pool({ connectionString: url, max: 8 });
  pool.on('error', () => {});
  t.teardown(() => pool.end());
  await pool.query(`${migration.sql} ${KEPT}`);
  const deleted = new Set<string>();
  let isAway = false;
  const database = databaseOf(pool, deleted, () => isAway);
  return {
    pool,
    deleted,
    fail(away) {
      isAway = away;
    },
    async open(clock) {
      const queues = await openQueues(database, clock, recordingLogger());
      t.teardown(() => {
        queues.crash();
      });
      return queues;
    },
  };
}

export function databaseOf(
  pool: pg.Pool,
  deleted: ReadonlySet<string>,
  isAway: () => boolean,
): QueueDatabase {
  const refuse = (): void => {
    if (isAway()) throw new RetryableError('storage_failed', 'the store is away');
  };
  const query: QueueDatabase['query'] = async (text, values) => {
    refuse();
    return pool.query(text, values as unknown[]);
  };
  return {
    query,
    async transaction(work) {
      refuse();
      const client = await pool.connect();
      try {
        await client.query('BEGIN');
        const result = await work({
          query: (text, values) => client.query(text, values as unknown[]),
        });
        await client.query('COMMIT');
        return result;
      } catch (error) {
        await client.query('ROLLBACK');
        throw error;
      } finally {
        client.release();
      }
    },
    deletedOf: async (_client, ids) => new Set(ids.filter((id) => deleted.has(id))),
    async keep(client, batches) {
      for (const batch of batches) {
        const record = recordOf(batch);
        await client.query('INSERT INTO kept VALUES ($1, $2, $3) ON CONFLICT DO NOTHING', [
          batch.id,
          JSON.stringify(record.slice(0, -1)),
          batch.body,
        ]);
      }
    },
    async read(wanted) {
      const ids = wanted.map(({ id }) => id);
      const { rows } = await query('SELECT * FROM kept WHERE id = ANY ($1)', [ids]);
      return new Map(rows.map((row): [string, RawBatch] => [String(row.id), keptIn(row)]));
    },
  };
}

function keptIn(row: Readonly<Record<string, unknown>>): RawBatch {
  const record = [...JSON.parse(String(row.record)), row.body];
  return batchOf(record as unknown as BatchRecord);
}

const BINARIES = '/usr/lib/postgresql';

/** A Postgres of a test file's own, on a free port; each call of `database` makes an empty one in it. */
export async function queueServer(t: Test): Promise<{ database(): Promise<string> }> {
  const binaries = findBinaries();
  const directory = mkdtempSync(join(tmpdir(), 'postgres-'));
  const data = join(directory, 'data');
  const owner = process.getuid?.() === 0 ? ownerOf() : undefined;
  if (owner !== undefined) chownSync(directory, owner.uid, owner.gid);
  const as = { ...owner, cwd: directory, stdio: 'ignore' as const };
  execFileSync(join(binaries, 'initdb'), ['-N', '-A', 'trust', '-U', 'test', '-D', data], as);
  const port = await freePort();
  const settings = [
    'fsync=off',
    'listen_addresses=127.0.0.1',
    `unix_socket_directories=${directory}`,
  ];
  const options = settings.flatMap((setting) => ['-c', setting]);
  const child = spawn(join(binaries, 'postgres'), ['-D', data, '-p', `${port}`, ...options], as);
  t.teardown(async () => {
    const ended = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGQUIT');
    await ended;
    rmSync(directory, { recursive: true, force: true });
  });
  const urlOf = (name: string): string => `postgres://test@127.0.0.1:${port}/${name}`;
  await answers(urlOf('postgres'));
  let count = 0;
  return {
    async database() {
      const name = `test_${count++}`;
      const client = new pg.Client({ connectionString: urlOf('postgres') });
      await client.connect();
      await client.query(`CREATE DATABASE ${name}`);
      await client.end();
      return urlOf(name);
    },
  };
}

async function answers(url: string): Promise<void> {
  for (let tries = 0; ; tries++) {
    const client = new pg.Client({ connectionString: url });
    try {
      await client.connect();
      await client.end();
      return;
    } catch (error) {
      if (tries === 100) throw error;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

function findBinaries(): string {
  const versions = existsSync(BINARIES) ? readdirSync(BINARIES) : [];
  const places = [
    ...(process.env.PATH ?? '').split(delimiter),
    ...versions.map((version) => join(BINARIES, version, 'bin')),
  ];
  const found = places.find((place) => existsSync(join(place, 'initdb')));
  if (found === undefined)
    throw new Error('Postgres is not installed: these tests start their own');
  return found;
}

/** Postgres refuses to run as root. */
function ownerOf(): { uid: number; gid: number } {
  const id = (flag: string): number => Number(execFileSync('id', [flag, 'postgres']).toString());
  return { uid: id('-u'), gid: id('-g') };
}
