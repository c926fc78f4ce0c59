import type { PostgresDatabases } from './postgres-server.ts';
import { migrated } from './queue-database.ts';

/** The migrated database of each server, which is copied in a third of the time of the migrations. */
const migratedDatabases = new WeakMap<PostgresDatabases, Promise<string>>();

/** Creates a database with all tables and no rows; resolves with its URL. */
export async function migratedDatabase(server: PostgresDatabases): Promise<string> {
  const copied = migratedDatabases.get(server) ?? firstDatabase(server);
  migratedDatabases.set(server, copied);
  return server.database(await copied);
}

async function firstDatabase(server: PostgresDatabases): Promise<string> {
  const url = await server.database();
  const postgres = await migrated(url);
  await postgres.close();
  return url;
}
