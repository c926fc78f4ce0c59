import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import pg from 'pg';
import type { Test } from 'tap';
import t from 'tap';
import { runCli } from '../../../src/cli/program.ts';
import type { Terminal } from '../../../src/cli/terminal.ts';
import { openDirectoryStorage } from '../../../src/sqlite/queue/directory-storage.ts';
import { fakeClock } from '../../helper/clock.ts';
import { daemonEntry } from '../../helper/daemon-bundle.ts';
import { newerVersion } from '../../helper/newer-file.ts';
import { PLAIN } from '../../helper/plain-process.ts';
import { postgresDatabases } from '../../helper/postgres-server.ts';
import { recordingLogger } from '../../helper/settings.ts';

// A start of several workers forks whole processes.
t.setTimeout(90_000);

const ROOT = fileURLToPath(new URL('../../../', import.meta.url));
const QUIET = [
  '--set=extensions.health_check.endpoint=127.0.0.1:0',
  '--set=service.telemetry.metrics.level=none',
  '--set=service.telemetry.logs.level=error',
];

function workDirectory(t: Test): string {
  const directory = mkdtempSync(join(tmpdir(), 'tracectl-newer-'));
  t.teardown(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

async function cli(cwd: string, argv: readonly string[], env: Terminal['env']) {
  const err: string[] = [];
  const status = await runCli(argv, { cwd, env, out: () => {}, err: (text) => err.push(text) });
  return { status, err: err.join('\n') };
}

/** Marks a file as written by the version after this program's. */
function makeNewer(file: string): void {
  const db = new DatabaseSync(file);
  const version = Number(db.prepare('PRAGMA user_version').get()?.user_version);
  db.exec(newerVersion(version + 1));
  db.close();
}

t.test(
  'run and every store command refuse a store of a newer version with status 65',
  async (t) => {
    const cwd = workDirectory(t);
    const env = { TRACECTL_DATA: join(cwd, 'data') };
    const config = join(ROOT, 'config/embedded.yaml');
    const options = [
      `--config=${config}`,
      '--set=extensions.admin.endpoint=127.0.0.1:0',
      '--set=extensions.sqlite.reserve_bytes=0',
      ...QUIET,
    ];
    t.match(await cli(cwd, ['keys', 'list', ...options], env), { status: 0 });
    makeNewer(join(cwd, 'data', 'store.db'));
    const refused = {
      status: 65,
      err: /data\/store\.db was written by a newer version of tracectl/,
    };
    t.match(await cli(cwd, ['run', ...options], env), refused, 'run');
    for (const command of [
      'keys list',
      'projects list',
      'usage show',
      'audit list',
      'organization show',
    ]) {
      t.match(await cli(cwd, [...command.split(' '), ...options], env), refused, command);
    }
  },
);

t.test('one worker and several refuse queues of a newer version', async (t) => {
  const cwd = workDirectory(t);
  const directory = join(cwd, 'data');
  for (const worker of [
    { index: 1, count: 1 },
    { index: 1, count: 2 },
  ]) {
    const storage = await openDirectoryStorage({
      ...{ directory, createDirectory: true, minFreeBytes: 0, reserveBytes: 0, worker },
      ...{ clock: fakeClock(), logger: recordingLogger() },
    });
    await storage.close();
  }
  makeNewer(join(directory, 'queue.db'));
  makeNewer(join(directory, 'worker-1', 'queue.db'));
  writeFileSync(join(cwd, 'tracectl.yaml'), queueConfig(directory, await freePort()));
  const one = await cli(cwd, ['run'], {});
  t.match(one, { status: 65, err: /data\/queue\.db was written by a newer version/ });
  const several = spawn(process.execPath, [daemonEntry(), 'run', '--set=service.workers=2'], {
    ...{ cwd, env: { ...process.env, ...PLAIN } },
    stdio: 'ignore',
  });
  t.same(await once(several, 'close'), [65, null]);
});

t.test('run and every store command refuse Postgres tables of a newer version', async (t) => {
  const server = await postgresDatabases(t);
  const url = await server.database();
  const cwd = workDirectory(t);
  writeFileSync(join(cwd, 'tracectl.yaml'), postgresConfig(url));
  t.match(await cli(cwd, ['keys', 'list'], {}), { status: 0 });
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query("INSERT INTO schema_migrations (name) VALUES ('9999-newer')");
  await client.end();
  const refused = {
    status: 65,
    err: /A newer version of tracectl changed the tables in Postgres \(9999-newer\)/,
  };
  t.match(await cli(cwd, ['run'], {}), refused, 'run');
  t.match(await cli(cwd, ['run', '--set=extensions.postgres.migrate=off'], {}), refused, 'off');
  t.match(await cli(cwd, ['keys', 'list'], {}), refused, 'keys list');
});

function postgresConfig(url: string): string {
  return `
extensions: {postgres: {url: "${url}"}}
receivers: {native: {endpoint: "127.0.0.1:0"}}
processors: {auth: {store: postgres}, normalization: null}
exporters: {postgres: null}
service:
  extensions: [postgres]
  pipelines: {traces: {receivers: [native], processors: [auth, normalization], exporters: [postgres]}}
  telemetry: {logs: {level: error}, metrics: {level: none}}
`;
}

function queueConfig(directory: string, port: number): string {
  return `
extensions: {file_storage: {directory: ${directory}, reserve_bytes: 0}}
receivers: {otlp: {project: p, protocols: {http: {endpoint: "127.0.0.1:${port}"}}}}
exporters: {otlphttp: {endpoint: "http://127.0.0.1:1", sending_queue: {storage: file_storage}}}
service:
  extensions: [file_storage]
  pipelines: {traces: {receivers: [otlp], exporters: [otlphttp]}}
  telemetry: {logs: {level: error}, metrics: {level: none}}
`;
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  await promisify(server.close.bind(server))();
  return typeof address === 'object' && address !== null ? address.port : 0;
}
