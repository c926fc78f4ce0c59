import t from 'tap';
import type { PostgresErasingParts } from '../../../extensions/postgres/erasing/tables.ts';
import { postgresErasing } from '../../../extensions/postgres/erasing/tables.ts';
import type { BatchItem } from '../../../src/store/erasing/items.ts';
import type { ErasureScope } from '../../../src/store/erasing/tables.ts';
import { anObservation, aTenant } from '../../helper/batches.ts';
import { migratedDatabase } from '../../helper/migrated-database.ts';
import { postgresDatabases } from '../../helper/postgres-server.ts';
import { batchWith, traceDatabase } from '../../helper/trace-database.ts';
import { until } from '../../helper/until.ts';

const server = await postgresDatabases(t);

t.test('items are noted as erased behind the writes that may not see the note', async (t) => {
  const { traces, postgres, database } = await traceDatabase(t, await migratedDatabase(server));
  const { projectId } = aTenant();
  await traces.write(batchWith([anObservation({ traceId: 'busy' })]));
  const waiting = async () => {
    const sql = `SELECT 1 FROM pg_stat_activity
      WHERE datname = current_database() AND wait_event_type = 'Lock'`;
    return (await postgres.query(sql)).rows.length;
  };
  const held = Promise.withResolvers<void>();
  const locked = Promise.withResolvers<void>();
  const holding = database.transaction(async (client) => {
    await client.query("SELECT 1 FROM traces WHERE key = 'busy'::bytea FOR UPDATE");
    locked.resolve();
    await held.promise;
  });
  await locked.promise;
  // A queue elsewhere has the batch, so that Postgres has no row of it to wait for.
  const batch = batchWith([
    anObservation({ id: 'b', traceId: 'busy' }),
    anObservation({ id: 'd', traceId: 'doomed' }),
  ]);
  const order: string[] = [];
  const writing = traces.write(batch).then(() => order.push('written'));
  await until(async () => (await waiting()) === 1);
  const parts = { database, now: () => batch.source.receivedAt };
  const { noteErased } = postgresErasing(parts as unknown as PostgresErasingParts);
  const scope = { id: 'era_1', project: projectId } as ErasureScope;
  const named = { position: 1, traceId: 'doomed', id: 'd', copy: null, userId: null };
  const items: BatchItem[] = [{ ...named, bytes: 10, contents: [] }];
  const noting = noteErased(scope, batch.source, { items, contents: [] }).then(() =>
    order.push('noted'),
  );
  await until(async () => order.length > 0 || (await waiting()) === 2);
  held.resolve();
  await Promise.all([holding, writing, noting]);
  t.same(order, ['written', 'noted']);
});

t.test('erasures that end while tables are vacuumed share the next VACUUM', async (t) => {
  const { database } = await traceDatabase(t, await migratedDatabase(server));
  const vacuums: PromiseWithResolvers<void>[] = [];
  const outside = {
    query(sql: string) {
      if (!sql.endsWith(' batches')) return Promise.resolve({ rows: [] });
      const vacuum = Promise.withResolvers<void>();
      vacuums.push(vacuum);
      return vacuum.promise.then(() => ({ rows: [] }));
    },
  };
  const { end } = postgresErasing({ database, outside } as unknown as PostgresErasingParts);
  const counts = { project: 'p', traces: 0, observations: 0, bytes: 0 };
  const change = {
    ...{ at: 0, actor: 'cli', address: null, action: 'erasure.finish', subject: 'era_1' },
    details: '{}',
  };
  for (let i = 0; i < 5; i++) await end('era_1', '{}', counts, change);
  t.equal(vacuums.length, 1);
  vacuums[0]?.resolve();
  await until(() => vacuums.length === 2);
  vacuums[1]?.resolve();
  await end('era_1', '{}', counts, change);
  await until(() => vacuums.length === 3);
  vacuums[2]?.resolve();
});
