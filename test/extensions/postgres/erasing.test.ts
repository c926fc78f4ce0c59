import t from 'tap';
import { cutAllExpired } from '../../../extensions/postgres/erasing/expired.ts';
import type { ItemCutter } from '../../../extensions/postgres/erasing/items.ts';
import { itemCutter } from '../../../extensions/postgres/erasing/items.ts';
import type { PostgresErasingParts } from '../../../extensions/postgres/erasing/tables.ts';
import { postgresErasingTables } from '../../../extensions/postgres/erasing/tables.ts';
import type { BatchItem } from '../../../src/store/erasing/items.ts';
import type { ErasureScope } from '../../../src/store/erasing/tables.ts';
import type { OnRemoved } from '../../../src/store/removals.ts';
import { anObservation, aTenant, nativeBatch, nativeEvent } from '../../helper/batches.ts';
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
  const writing = traces.write(batch);
  await until(async () => (await waiting()) === 1);
  const parts = { database, now: () => batch.source.receivedAt };
  const { noteErased } = postgresErasingTables(parts as unknown as PostgresErasingParts);
  const scope = { id: 'era_1', project: projectId } as ErasureScope;
  const named = { position: 1, traceId: 'doomed', id: 'd', copy: null, userId: null };
  const items: BatchItem[] = [{ ...named, bytes: 10, contents: [] }];
  let isNoted = false;
  // Asked in Postgres: the answers of the two transactions can arrive in the other order.
  const noting = noteErased(scope, batch.source, { items, contents: [] }).then(() => {
    isNoted = true;
    return postgres.query('SELECT FROM batches WHERE id = $1', [batch.source.id]);
  });
  await until(async () => isNoted || (await waiting()) === 2);
  t.notOk(isNoted, 'waits for the write');
  held.resolve();
  const [, , written] = await Promise.all([holding, writing, noting]);
  t.equal(written.rows.length, 1);
});

t.test('an erasure removes the batches of its project whose traces have expired', async (t) => {
  const { traces, postgres, database } = await traceDatabase(t, await migratedDatabase(server));
  const { projectId } = aTenant();
  const at = 1_768_478_400_000;
  const write = async (traceIds: readonly string[], tenant = aTenant()): Promise<string> => {
    const observations = traceIds.map((traceId) => anObservation({ id: traceId, traceId }));
    const batch = batchWith(observations, { tenant, receivedAt: at });
    await traces.write(batch);
    return batch.source.id;
  };
  const expired = [await write(['expired-1']), await write(['expired-2', 'expired-3'])];
  const shared = await write(['expired-4', 'kept']);
  const kept = await write(['kept']);
  const other = await write(['expired-5'], aTenant({ projectId: 'proj_other' }));
  await postgres.query(
    "DELETE FROM batch_traces USING traces WHERE trace = n AND key <> 'kept'::bytea",
  );
  // More notes than one step looks at, behind the first batch and before it.
  await postgres.query(
    `INSERT INTO free_batches SELECT id, $1::bigint FROM batches
     UNION ALL SELECT first || to_char(n, '00000'), $1 FROM generate_series(1, 2500) AS n,
       (VALUES ((SELECT min(id) FROM batches WHERE project = $2)), ('')) AS f (first)`,
    [at, projectId],
  );
  let removed = 0;
  const onRemoved: OnRemoved = ({ batches = 0 }) => {
    removed += batches;
  };
  const cutter = itemCutter();
  t.teardown(() => cutter.close());
  const parts = { database, onRemoved, cutter };
  const { removeBatches } = postgresErasingTables(parts as unknown as PostgresErasingParts);
  const scope = { id: 'era_1', project: projectId } as ErasureScope;
  let steps = 0;
  for await (const _ of removeBatches(scope)) steps++;
  t.equal(steps, 11, 'notes before the first batch of the project are not read');
  const idsIn = async (table: string) =>
    (await postgres.query(`SELECT id FROM ${table} WHERE id NOT LIKE '% %' ORDER BY id`)).rows.map(
      ({ id }) => id,
    );
  t.same(await idsIn('batches'), [shared, kept, other].sort());
  t.same(await idsIn('free_batches'), [shared, kept, other].sort(), 'housekeeping looks at others');
  t.equal(removed, expired.length);
});

t.test('no item is cut out of a batch that gets a trace while it is looked at', async (t) => {
  const { traces, postgres, database } = await traceDatabase(t, await migratedDatabase(server));
  const names = ['expired', 'kept', 'other'];
  const observations = names.map((traceId, index) =>
    anObservation({ id: traceId, traceId, index }),
  );
  const events = names.map((name) => nativeEvent({ id: name, trace_id: name }));
  const source = nativeBatch(events, { receivedAt: 1 });
  await traces.write({ kind: 'observations', source, observations });
  const unpaired = (await postgres.query(
    `DELETE FROM batch_traces USING traces WHERE trace = n AND key = 'expired'::bytea
     RETURNING batch, trace`,
  )) as { rows: { batch: string; trace: number }[] };
  await postgres.query("DELETE FROM observations WHERE key = 'expired'::bytea");
  await postgres.query('INSERT INTO partly_expired SELECT id FROM batches');
  const real = itemCutter();
  t.teardown(() => real.close());
  const cutAll = async (onWithout: () => Promise<unknown>) => {
    const cutter: ItemCutter = {
      ...real,
      async without(...args) {
        await onWithout();
        return real.without(...args);
      },
    };
    for await (const _ of cutAllExpired({ database, cutter, onRemoved: () => undefined }));
    const { rows } = await postgres.query(
      'SELECT items, (SELECT count(*) FROM partly_expired) AS notes FROM batches',
    );
    return rows;
  };
  const [pair] = unpaired.rows;
  const values = [pair?.batch, pair?.trace];
  const again = () => postgres.query('INSERT INTO batch_traces VALUES ($1, $2)', values);
  t.same(await cutAll(again), [{ items: 3, notes: 0 }]);
  await postgres.query('DELETE FROM batch_traces WHERE batch = $1 AND trace = $2', values);
  await postgres.query('INSERT INTO partly_expired SELECT id FROM batches');
  t.same(await cutAll(async () => undefined), [{ items: 2, notes: 0 }]);
});

t.test('an erasure does not deadlock with housekeeping that removes the same batch', async (t) => {
  const { traces, postgres, database } = await traceDatabase(t, await migratedDatabase(server));
  const batch = batchWith([anObservation({ traceId: 'expired' })]);
  await traces.write(batch);
  await postgres.query('DELETE FROM batch_traces');
  await postgres.query('INSERT INTO free_batches SELECT id, 0 FROM batches');
  const parts = { database, onRemoved: () => undefined };
  const { removeBatches } = postgresErasingTables(parts as unknown as PostgresErasingParts);
  const scope = { id: 'era_1', project: aTenant().projectId } as ErasureScope;
  const erase = async () => {
    for await (const _ of removeBatches(scope));
  };
  let erasing: Promise<void> | undefined;
  await database.transaction(async (client) => {
    await client.query('SELECT FROM free_batches FOR UPDATE SKIP LOCKED');
    erasing = erase();
    await until(async () => {
      const sql = `SELECT 1 FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'`;
      return (await postgres.query(sql)).rows.length === 1;
    });
    await client.query('DELETE FROM batches');
    await client.query('DELETE FROM free_batches');
  });
  await erasing;
  t.same((await postgres.query('SELECT FROM free_batches')).rows, []);
});

t.test('an erasure waits while expired partitions are removed', async (t) => {
  const { postgres, database } = await traceDatabase(t, await migratedDatabase(server));
  const { hasUnstored } = postgresErasingTables({ database } as unknown as PostgresErasingParts);
  const scope = { id: 'era_1', project: aTenant().projectId, until: 1 } as ErasureScope;
  t.equal(await hasUnstored(scope), false);
  await postgres.query('CREATE TABLE detached_traces_20260115 (LIKE traces)');
  t.equal(await hasUnstored(scope), true);
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
  const { end } = postgresErasingTables({ database, outside } as unknown as PostgresErasingParts);
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
