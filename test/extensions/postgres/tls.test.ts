import { execFileSync } from 'node:child_process';
import { chmodSync, chownSync, copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import t from 'tap';
import { config } from '../../../extensions/postgres/config.ts';
import { factory as postgres } from '../../../extensions/postgres/factory.ts';
import { offer } from '../../../src/component/capability.ts';
import { systemClock } from '../../../src/component/clock.ts';
import type { Extension } from '../../../src/component/component.ts';
import { createHealth, HEALTH_REGISTRY } from '../../../src/component/health.ts';
import { postgresServer } from '../../helper/postgres-server.ts';
import { fakeHost, testSettings } from '../../helper/settings.ts';

const fixture = (name: string): string => join(import.meta.dirname, '../../fixtures/tls', name);

/** Postgres accepts a key only if no other user can read it. */
function serverFiles(): { cert: string; key: string } {
  const directory = mkdtempSync(join(tmpdir(), 'tracectl-postgres-tls-'));
  t.teardown(() => rmSync(directory, { recursive: true, force: true }));
  const files = { cert: join(directory, 'server.pem'), key: join(directory, 'server.key') };
  copyFileSync(fixture('server.pem'), files.cert);
  copyFileSync(fixture('server.key'), files.key);
  chmodSync(files.key, 0o600);
  if (process.getuid?.() === 0) {
    const [uid = 0, gid = 0] = ['-u', '-g'].map((what) =>
      Number(execFileSync('id', [what, 'postgres'], { encoding: 'utf8' })),
    );
    for (const path of [directory, files.cert, files.key]) chownSync(path, uid, gid);
  }
  return files;
}

const { cert, key } = serverFiles();
const server = await postgresServer(t, [
  'fsync=off',
  'ssl=on',
  `ssl_cert_file=${cert}`,
  `ssl_key_file=${key}`,
]);

async function start(tls: object, url?: string): Promise<void> {
  const host = fakeHost({ services: [offer(HEALTH_REGISTRY, createHealth(systemClock))] });
  const settings = testSettings('extension', 'postgres', { host, clock: systemClock });
  const written = { url: url ?? (await server.database()), tls };
  const extension = (await postgres.create(settings, config.parse(written))) as Extension;
  t.teardown(() => extension.shutdown(AbortSignal.timeout(1000)));
  await extension.start();
}

t.test('trusts only a server with a certificate of the given authority', async (t) => {
  const url = await server.database();
  await start({ ca_file: fixture('ca.pem') }, url);
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const { rows } = await client.query(
    `SELECT DISTINCT application_name AS name, ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
     WHERE application_name LIKE 'tracectl%' ORDER BY 1`,
  );
  await client.end();
  t.same(rows, [
    { name: 'tracectl', ssl: true },
    { name: 'tracectl notices', ssl: true },
  ]);
  await t.rejects(start({}), { name: 'RetryableError', code: 'storage_failed' });
  await start({ insecure_skip_verify: true });
  await t.rejects(start({ ca_file: fixture('ca.pem'), server_name_override: 'other.test' }), {
    code: 'storage_failed',
  });
});
