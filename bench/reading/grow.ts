import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import pg from 'pg';
import { isUnposted } from '../../extensions/sqlite/traces/postings.ts';
import { postgresServer } from '../../test/helper/postgres-server.ts';
import type { Teardown } from '../../test/helper/redis-server.ts';
import type { CopyDialect } from './copying.ts';
import { copyStatements, HOW_GROWN, multipliedLatencies, ROLLUP_NUMBERS } from './copying.ts';
import type { Filling, StoreName } from './store.ts';
import { FIRST_DATABASE, NOTE } from './store.ts';

/** Makes `to`, a store of `times` as many observations, of the kept store in `from`, which nothing uses. */
export async function grow(
  store: StoreName,
  [from, to]: readonly [from: string, to: string],
  times: number,
  say: (text: string) => void,
): Promise<void> {
  mkdirSync(join(to, '..'), { recursive: true });
  // Keeps the owner, whom Postgres checks.
  execFileSync('cp', ['-a', from, to]);
  const filling = JSON.parse(readFileSync(join(from, NOTE), 'utf8')) as Filling;
  if (store === 'sqlite') await growSqlite([from, to], times, say);
  else await growPostgres(to, times, say);
  const observations = filling.observations + (times - 1) * filling.copied;
  const grown: Filling = { ...filling, observations, how: HOW_GROWN };
  writeFileSync(join(to, NOTE), JSON.stringify(grown));
}

const STORE = 'store.db';

/** The terms of a trace that waits to be posted would not be copied. */
function refuseWaiting(db: DatabaseSync): void {
  const waits = db.prepare(`SELECT 1 FROM traces WHERE ${isUnposted('n')} LIMIT 1`).get();
  if (waits !== undefined) throw new Error('traces wait to be posted: run the store for a second');
}

async function growSqlite(
  [from, to]: readonly [string, string],
  times: number,
  say: (text: string) => void,
): Promise<void> {
  const db = new DatabaseSync(join(to, STORE));
  try {
    db.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; PRAGMA cache_size = -524288;
      PRAGMA wal_autocheckpoint = 100000; PRAGMA temp_store = FILE`);
    db.prepare('ATTACH ? AS copied').run(join(from, STORE));
    refuseWaiting(db);
    const columns = db.prepare('SELECT name FROM pragma_table_info(?)');
    const dialect: CopyDialect = {
      source: (table) => `copied.${table}`,
      columnsOf: (table) => columns.all(table).map(({ name }) => String(name)),
      otherKey: (key, byte) => `unhex(printf('%02x', ${byte}) || substr(hex(${key}), 3))`,
    };
    for (let copy = 1; copy < times; copy++) {
      for (const statement of await copyStatements(dialect, copy, times)) db.exec(statement);
      say(`copy ${copy} of ${times - 1}`);
    }
    db.exec('UPDATE posted_traces SET n = (SELECT max(n) FROM traces)');
    db.function('multiplied', (stored) =>
      stored instanceof Uint8Array ? multipliedLatencies(stored, times) : null,
    );
    const numbers = ROLLUP_NUMBERS.map((column) => `${column} = ${column} * ${times}`).join(', ');
    db.exec(`UPDATE main.rollups SET ${numbers}, latencies = multiplied(latencies)`);
    db.exec('PRAGMA wal_checkpoint(TRUNCATE)');
  } finally {
    db.close();
  }
}

async function growPostgres(
  directory: string,
  times: number,
  say: (text: string) => void,
): Promise<void> {
  const closers: Parameters<Teardown['teardown']>[0][] = [];
  const server = await postgresServer(
    { teardown: (close) => void closers.push(close) },
    ['fsync=off', 'max_wal_size=4GB'],
    directory,
  );
  const client = new pg.Client({ connectionString: server.urlOf(FIRST_DATABASE) });
  try {
    await client.connect();
    const dialect: CopyDialect = {
      source: (table) => table,
      async columnsOf(table) {
        const { rows } = await client.query(
          `SELECT column_name AS name FROM information_schema.columns
           WHERE table_name = $1 AND is_generated = 'NEVER' ORDER BY ordinal_position`,
          [table],
        );
        return rows.map(({ name }) => String(name));
      },
      otherKey: (key, byte) => `set_byte(${key}, 0, ${byte})`,
    };
    for (let copy = 1; copy < times; copy++) {
      for (const statement of await copyStatements(dialect, copy, times)) {
        await client.query(statement);
      }
      say(`copy ${copy} of ${times - 1}`);
    }
    await multiplyRollups(client, times);
    await client.query('VACUUM ANALYZE');
  } finally {
    await client.end();
    await server.stop();
    for (const close of closers.reverse()) await close();
  }
}

async function multiplyRollups(client: pg.Client, times: number): Promise<void> {
  const numbers = ROLLUP_NUMBERS.map((column) => `${column} = ${column} * ${times}`).join(', ');
  const { rows } = await client.query('SELECT DISTINCT latencies FROM rollups');
  const stored: Buffer[] = rows.map(({ latencies }) => latencies);
  const multiplied = stored.map((one) => Buffer.from(multipliedLatencies(one, times)));
  await client.query(
    `UPDATE rollups r SET ${numbers}, latencies = m.after
     FROM unnest($1::bytea[], $2::bytea[]) AS m (before, after) WHERE r.latencies = m.before`,
    [stored, multiplied],
  );
}
