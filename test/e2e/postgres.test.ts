import pg from 'pg';
import t, { type Test } from 'tap';
import { postgresServer } from '../helper/postgres-server.ts';
import { holdWhateverArrives } from './bad-inputs.ts';
import { readBackCaptures } from './captures.ts';
import { eventually, json, list, record } from './client.ts';
import type { DaemonOptions, Tree } from './daemon.ts';
import { startDaemon, total } from './daemon.ts';
import { treeAt } from './shipped.ts';

/** Both pipelines in one process, and all it keeps in Postgres: queue, observations, projects, usage. */

t.setTimeout(180_000);

const TOKEN = 'an-admin-token-of-thirty-two-characters';
const server = await postgresServer(t);

/** The embedded shape on a database of its own, instead of SQLite. */
async function onPostgres(): Promise<DaemonOptions & { readonly url: string }> {
  const url = await server.database();
  const edit = (config: Tree): void => {
    const extensions = treeAt(config, 'extensions');
    delete extensions.sqlite;
    extensions.postgres = { url };
    Object.assign(treeAt(extensions, 'admin'), { store: 'postgres', token: TOKEN });
    for (const name of ['auth', 'quotas']) treeAt(config, 'processors', name).store = 'postgres';
    treeAt(config, 'connectors', 'disk_queue').store = 'postgres';
    config.exporters = { postgres: { store: 'postgres' } };
    treeAt(config, 'service').extensions = ['postgres', 'admin', 'health_check'];
    treeAt(config, 'service', 'pipelines', 'traces/store').exporters = ['postgres'];
  };
  return { url, edit };
}

t.test('what hostile clients send is stored in Postgres and reads back', async (t) => {
  await holdWhateverArrives(t, {
    daemon: await onPostgres(),
    exporter: 'postgres',
    isWanted: ({ expect }) => (expect.effects?.acceptedDelta ?? 0) > 0,
  });
});

t.test('what real SDKs send reads back from Postgres as they meant it', async (t) => {
  await readBackCaptures(t, await onPostgres());
});
