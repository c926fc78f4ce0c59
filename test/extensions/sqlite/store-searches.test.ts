import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import t from 'tap';
import type { OpenSqliteStore } from '../../../extensions/sqlite/open-store.ts';
import { postingOperations } from '../../../extensions/sqlite/traces/posting-operations.ts';
import { storeContract } from '../../contract/store.ts';
import { sqlitePlace } from '../../helper/places.ts';

t.setTimeout(300_000);

t.test('while the terms of new traces wait to be posted', async (t) => {
  storeContract(t, 'searches', async (t) => sqlitePlace(t));
});

t.test('after each write has been posted', async (t) => {
  storeContract(t, 'searches', async (t) => {
    const place = sqlitePlace(t);
    const open = async (written?: object) => posting(await place.open(written), place.directory);
    return { ...place, open };
  });
});

/** The store, which posts behind each write. */
function posting(opened: OpenSqliteStore, directory: string): OpenSqliteStore {
  const { store } = opened;
  const write: typeof store.traces.write = async (batch) => {
    await store.traces.write(batch);
    const db = new DatabaseSync(join(directory, 'store.db'), { timeout: 5000 });
    const { 'traces.post': post } = postingOperations(db);
    while (post());
    db.close();
  };
  return { ...opened, store: { ...store, traces: { ...store.traces, write } } };
}
