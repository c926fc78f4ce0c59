import pg from 'pg';
import t from 'tap';
import { MIGRATIONS } from '../../../extensions/postgres/migrations/index.ts';
import { anObservation, aTenant, nativeBatch } from '../../helper/batches.ts';
import { postgresPlace } from '../../helper/postgres-place.ts';
import { postgresDatabases } from '../../helper/postgres-server.ts';
import { deliverAll, storeSnapshot } from '../../helper/store-snapshot.ts';
import type { StoredPostgres } from '../../helper/stored-releases.ts';
import { storedPostgres } from '../../helper/stored-releases.ts';

const server = await postgresDatabases(t);
/** Without the tables of a store, which a dump brings. */
const empty = { database: () => server.database() };

async function query(url: string, text: string): Promise<unknown[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query(text)).rows;
  } finally {
    await client.end();
  }
}

/** A database with the dump of a release, opened at the time of the dump. */
async function restored({ sql, now }: StoredPostgres) {
  const place = await postgresPlace(empty);
  await query(place.url, sql);
  place.clock.set(now);
  return place;
}

/** Everything that migrations define: columns, constraints, indexes, functions, triggers, sequences, settings. */
async function schemaOf(url: string): Promise<unknown[]> {
  return query(
    url,
    `WITH ours AS (
       SELECT c.oid, c.relname AS name, c.relkind, c.reloptions FROM pg_class c
       WHERE c.relnamespace = 'public'::regnamespace AND c.relname !~ '^(batches|traces|observations|trace_terms|payload_texts)_[0-9]'
     )
     SELECT 'relation' AS what, name, concat(relkind, ' ', reloptions::text) AS definition FROM ours
     UNION ALL SELECT 'column', concat(name, '.', attname),
       concat(format_type(atttypid, atttypmod), ' ', attnotnull, ' ', attidentity, attgenerated,
         attstorage, ' ', attcollation::regcollation, ' ', pg_get_expr(adbin, adrelid))
       FROM ours JOIN pg_attribute ON attrelid = ours.oid AND attnum > 0 AND NOT attisdropped
       LEFT JOIN pg_attrdef d ON d.adrelid = attrelid AND d.adnum = attnum
       WHERE relkind IN ('r', 'p', 'v')
     UNION ALL SELECT 'constraint', concat(name, '.', conname), pg_get_constraintdef(k.oid)
       FROM ours JOIN pg_constraint k ON conrelid = ours.oid
     UNION ALL SELECT 'index', name, pg_get_indexdef(oid) FROM ours WHERE relkind IN ('i', 'I')
     UNION ALL SELECT 'trigger', tgname, pg_get_triggerdef(g.oid)
       FROM ours JOIN pg_trigger g ON tgrelid = ours.oid AND NOT tgisinternal
     UNION ALL SELECT 'view', name, pg_get_viewdef(oid) FROM ours WHERE relkind = 'v'
     UNION ALL SELECT 'function', proname, pg_get_functiondef(oid) FROM pg_proc
       WHERE pronamespace = 'public'::regnamespace
     ORDER BY 1, 2, 3`,
  );
}

t.ok(storedPostgres().length > 0, 'there is a dump');

for (const release of storedPostgres()) {
  const { name, now, queues, snapshot } = release;

  t.test(`reads a store of release ${name} back as the release did`, async (t) => {
    const place = await restored(release);
    const { store, postgres, close } = await place.open();
    t.teardown(close);
    t.hasStrict(await storeSnapshot(store, now, queues), snapshot);
    t.same(await store.usage.verify(), [], 'the ledger fits the batches');
    const { rows } = await postgres.query('SELECT name FROM schema_migrations ORDER BY name');
    t.same(
      rows.map((row) => row.name),
      MIGRATIONS.map((migration) => migration.name),
    );
  });

  t.test(`delivers the queues of a store of release ${name}, and writes on`, async (t) => {
    const place = await restored(release);
    const opened = await place.open();
    t.ok((await deliverAll(opened.store, queues)) > 10, 'entries and dead letters are delivered');
    const [project] = await opened.store.projects.list();
    const tenant = aTenant({
      projectId: project?.id ?? '',
      organizationId: project?.organizationId ?? '',
    });
    const source = nativeBatch(1, { tenant, receivedAt: now });
    const observations = [anObservation({ id: 'new', traceId: 'new' })];
    await opened.store.traces.write({ kind: 'observations', source, observations });
    await opened.store.projects.create('new');
    await opened.finish();
    await opened.close();
    const { store, close } = await place.open();
    t.teardown(close);
    t.equal(await deliverAll(store, queues), 0, 'nothing is delivered twice');
    t.match(await store.traces.getTrace(tenant.projectId, 'new'), { id: 'new', name: 'chat' });
    t.ok((await store.projects.list()).some((each) => each.name === 'new'));
  });

  t.test(`migrates a store of release ${name} to the tables of a new one`, async (t) => {
    const migrated = await restored(release);
    await (await migrated.open()).close();
    const created = await postgresPlace(server);
    await (await created.open()).close();
    const expected = await schemaOf(created.url);
    t.ok(expected.length > 100, 'the query finds definitions');
    t.same(await schemaOf(migrated.url), expected);
  });
}
