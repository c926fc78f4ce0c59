import t from 'tap';
import type { StoreDatabase } from '../../../extensions/postgres/database.ts';
import { orphanSearch } from '../../../extensions/postgres/queue/holder.ts';

/** A search over leases in a database, of which the process knows some. */
function searching() {
  const held = new Map<number, { branch: number; batch_id: string; seq: number }>();
  const known = new Set<number>();
  const query: StoreDatabase['query'] = async (text, values = []) => {
    if (text.startsWith('SELECT')) return { rows: [...held.values()] };
    for (const id of values[2] as string[]) held.delete(Number(id));
    return { rows: [] };
  };
  const database = { query } as StoreDatabase;
  return {
    ...{ held, known },
    lease: (seq: number) => held.set(seq, { branch: 1, batch_id: String(seq), seq }),
    search: orphanSearch(database, 'holder', (_, seq) => known.has(seq)),
  };
}

t.test('releases a lease that two searches in a row do not know', async (t) => {
  const { held, lease, search } = searching();
  lease(1);
  t.equal(await search(), 0);
  lease(2);
  t.equal(await search(), 1);
  t.same([...held.keys()], [2]);
  t.equal(await search(), 1);
  t.same([...held.keys()], []);
});

t.test('keeps a lease whose answer arrives between two searches', async (t) => {
  const { held, known, lease, search } = searching();
  lease(1);
  t.equal(await search(), 0);
  known.add(1);
  t.equal(await search(), 0);
  known.delete(1);
  t.equal(await search(), 0, 'it is unknown for the first time again');
  t.equal(await search(), 1);
  t.equal(held.size, 0);
});
