import t from 'tap';
import { configureSearch } from '../../../extensions/postgres/search/tables.ts';
import { begin } from '../../../extensions/postgres/traces/locking.ts';
import { textSearch } from '../../contract/text-search.ts';
import { anObservation } from '../../helper/batches.ts';
import { migratedDatabase } from '../../helper/migrated-database.ts';
import { postgresPlace } from '../../helper/postgres-place.ts';
import { postgresDatabases } from '../../helper/postgres-server.ts';
import { batchWith, traceDatabase } from '../../helper/trace-database.ts';

t.setTimeout(300_000);
const server = await postgresDatabases(t);

t.test('a write that has begun without the search holds it up until its end', async (t) => {
  const { postgres, traces, count } = await traceDatabase(t, await migratedDatabase(server));
  const aWrite = { project: 'p', isExclusive: false, batchIds: [], observations: 0, traces: 0 };
  await postgres.transaction(async (client) => {
    const [begun] = await client.together([begin(aWrite)]);
    t.equal(begun.isSearched, false);
    await t.rejects(configureSearch(postgres, 4096), { cause: { code: '55P03' } });
  });
  await configureSearch(postgres, 4096);
  await traces.write(batchWith([anObservation()]));
  t.equal(await count('text_changes'), 1, 'the next write notes its changes');
});

textSearch(t, () => postgresPlace(server));
