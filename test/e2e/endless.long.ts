import { fork } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { gunzipSync } from 'node:zlib';
import t from 'tap';
import { MAX_YOUNG_FLAG } from '../../src/cli/heap.ts';
import { prepareDaemon, startDaemon, type Tree } from './daemon.ts';

// It starts whole daemons, which takes long where many tests run at once.
t.setTimeout(300_000);

const STORE = fileURLToPath(new URL('../fixtures/stores/0.1.0/store.db.gz', import.meta.url));
const SHORT = { service: { shutdown_timeout: '1s' } };
/** SQLite cannot be interrupted, so the process kills itself. */
const KILLED = { code: null, signal: 'SIGKILL' };

/** Makes a store of an earlier release, in which the migration to version 5 does not end. */
function makeEndless(directory: string): void {
  mkdirSync(directory);
  writeFileSync(join(directory, 'store.db'), gunzipSync(readFileSync(STORE)));
  inStore(
    directory,
    `CREATE TABLE schema_migrations (version INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT;
    INSERT INTO schema_migrations VALUES (1, '0001-store');
    CREATE TRIGGER endless AFTER INSERT ON schema_migrations WHEN NEW.version = 5 BEGIN
      SELECT (WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n);
    END`,
  );
}

function inStore(directory: string, sql: string): void {
  const db = new DatabaseSync(join(directory, 'store.db'));
  db.exec(sql);
  db.close();
}

/** Resolves when the last migration before the endless one is committed. */
async function untilEndless(directory: string): Promise<void> {
  while (!existsSync(join(directory, 'store.db-wal'))) await setTimeout(10);
  const db = new DatabaseSync(join(directory, 'store.db'), { readOnly: true });
  const version = db.prepare('SELECT max(version) AS newest FROM schema_migrations');
  while (version.get()?.['newest'] !== 4) await setTimeout(10);
  db.close();
}

t.test('one signal ends a start whose migration does not end', async (t) => {
  const daemon = await prepareDaemon({ config: SHORT });
  t.teardown(() => daemon.remove());
  const data = join(daemon.directory, 'data');
  makeEndless(data);
  const started = t.rejects(daemon.start(), /the daemon ended/);
  await untilEndless(data);
  t.same(await daemon.end('SIGTERM'), KILLED);
  await started;
  t.match(daemon.stderr(), 'Daemon did not stop in time; stopping at once');

  inStore(data, 'DROP TRIGGER endless');
  await daemon.start();
  t.match(daemon.stderr(), /Tables migrated.* from=4 /, 'the next start repeats the migration');
});

t.test('one signal ends a reload whose migration does not end', async (t) => {
  const daemon = await startDaemon(t, { config: SHORT });
  const data = join(daemon.directory, 'other');
  makeEndless(data);
  const config = JSON.parse(readFileSync(daemon.configPath, 'utf8')) as Tree;
  (config['extensions'] as Tree)['sqlite'] = { directory: data };
  writeFileSync(daemon.configPath, JSON.stringify(config));
  process.kill(daemon.pid(), 'SIGHUP');
  await untilEndless(data);
  t.same(await daemon.end('SIGTERM'), KILLED);
  t.match(daemon.stderr(), 'Daemon did not stop in time; stopping at once');
});

t.test('a worker whose supervisor is gone ends a start whose migration does not end', async (t) => {
  const daemon = await prepareDaemon({ config: SHORT });
  t.teardown(() => daemon.remove());
  const data = join(daemon.directory, 'data');
  makeEndless(data);
  const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
  const worker = fork(main, ['run', '--config', daemon.configPath], {
    cwd: daemon.directory,
    // As the supervisor starts it: a process without these settings of memory would replace itself, without the channel.
    env: { ...process.env, MALLOC_ARENA_MAX: '2', TRACECTL_WORKER: '1/2' },
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    execArgv: [MAX_YOUNG_FLAG],
  });
  t.teardown(() => worker.kill('SIGKILL'));
  let logged = '';
  worker.stderr?.setEncoding('utf8').on('data', (text: string) => {
    logged += text;
  });
  worker.send({ type: 'configuration', files: {} });
  await untilEndless(data);
  const ended = Promise.all([once(worker, 'exit'), worker.stderr && once(worker.stderr, 'end')]);
  worker.disconnect();
  const [exit] = await ended;
  t.same(exit, [null, 'SIGKILL']);
  t.match(logged, 'Daemon did not stop in time; stopping at once');
});
