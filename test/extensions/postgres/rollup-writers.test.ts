import t from 'tap';
import { DAY, HOUR } from '../../../src/store/rollups/fold.ts';
import { recount, rollups } from '../../contract/rollup-oracle.ts';
import { anObservation, aTenant } from '../../helper/batches.ts';
import { postgresPlace } from '../../helper/postgres-place.ts';
import { postgresDatabases } from '../../helper/postgres-server.ts';
import { batchWith } from '../../helper/trace-database.ts';

const server = await postgresDatabases(t);
const P = aTenant().projectId;
const HOUR_MS = 3_600_000;
const T0 = Date.UTC(2026, 0, 15, 12);
const HOURS = { from: T0 / HOUR_MS - 24, to: T0 / HOUR_MS + 24 };

t.test(
  'rollups of several writers equal a recount, while changes are added to the rows',
  async (t) => {
    const place = await postgresPlace(server);
    const stores = [await place.open(), await place.open()];
    t.teardown(() => Promise.all(stores.map((store) => store.close())));
    const [first] = stores;
    if (first === undefined) throw new Error('a store was opened');
    const traces = ['a', 'b', 'c', 'd'];
    const writes = Array.from({ length: 40 }, (_, i) =>
      batchWith(
        (i % 2 === 0 ? traces : traces.toReversed()).map((traceId) =>
          anObservation({
            ...{
              traceId,
              id: `${traceId}-${i % 25}`,
              parentId: i % 25 === 0 ? null : `${traceId}-0`,
            },
            ...{ userId: `u${i % 3}`, model: `m${i % 2}`, usage: { input_tokens: i } },
            ...{ startTime: { ms: T0 + (i % 5) * 1000, ns: 0 }, endTime: null, version: String(i) },
          }),
        ),
      ),
    );
    await Promise.all([
      ...writes.map((batch, i) => stores[i % 2]?.store.traces.write(batch)),
      first.finish(),
    ]);
    await first.finish();
    t.same(await rollups(first.store, P, HOURS, HOUR), await recount(first.store, P, HOUR));
    t.same(await rollups(first.store, P, HOURS, DAY), await recount(first.store, P, DAY));
  },
);
