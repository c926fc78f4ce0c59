import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import t from 'tap';
import { salvageSqliteStore } from '../../../extensions/sqlite/open-store.ts';
import { anObservation, aTenant, nativeBatch } from '../../helper/batches.ts';
import { sqlitePlace } from '../../helper/places.ts';
import { aQuery } from '../../helper/query.ts';

t.test('a salvaged store makes the postings of its traces again', async (t) => {
  const place = sqlitePlace(t);
  const before = await place.open();
  const list = ['a', 'b'].map((traceId, index) => anObservation({ traceId, model: 'm', index }));
  const source = nativeBatch(list.length, { receivedAt: place.clock.now() });
  await before.store.traces.write({ kind: 'observations', source, observations: list });
  await before.finish();
  const { posted } = await place.termTables();
  await before.close();
  await salvageSqliteStore(place.directory, place.logger);
  const db = new DatabaseSync(join(place.directory, 'store.db'), { readOnly: true });
  t.teardown(() => db.close());
  t.match(db.prepare('SELECT n FROM posted_traces').all(), [{ n: 2 }], 'no trace waits');
  t.same((await place.termTables()).posted, []);
  const after = await place.open();
  t.teardown(() => after.close());
  await after.finish();
  t.same((await place.termTables()).posted, posted);
  const { projectId } = aTenant();
  const found = await after.store.traces.listTraces(projectId, {
    limit: 9,
    query: aQuery('model:m'),
  });
  t.equal(found.items.length, 2);
});
