import type { PostgresServer } from '../helper/postgres-server.ts';
import type { DaemonOptions, Tree } from './daemon.ts';
import { treeAt } from './shipped.ts';

const TOKEN = 'an-admin-token-of-thirty-two-characters';

/** The embedded shape with its own Postgres database instead of SQLite. */
export async function onPostgres(
  server: PostgresServer,
): Promise<DaemonOptions & { readonly url: string }> {
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
