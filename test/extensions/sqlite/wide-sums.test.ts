import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import t from 'tap';
import type { RankField } from '../../../src/store/ranking.ts';
import { anObservation, nativeBatch } from '../../helper/batches.ts';
import { sqlitePlace } from '../../helper/places.ts';
import { aQuery } from '../../helper/query.ts';

const P = 'proj_test';

t.test(
  'reads sums of a trace beyond the safe integers, which earlier versions stored',
  async (t) => {
    const place = sqlitePlace(t);
    const { store, finish, close } = await place.open();
    t.teardown(close);
    const source = nativeBatch(2);
    const traces = ['few', 'many'].map((traceId, index) =>
      anObservation({ traceId, id: traceId, index, sessionId: 's', usage: { input_tokens: 1 } }),
    );
    await store.traces.write({ kind: 'observations', source, observations: traces });
    await finish();
    const db = new DatabaseSync(join(place.directory, 'store.db'), { timeout: 5000 });
    t.teardown(() => db.close());
    const most = '9223372036854775807';
    db.exec(`UPDATE traces SET input_tokens = ${most}, output_tokens = ${most}, tokens = ${most},
    cost = ${most} WHERE key = 'many'`);
    const look = {
      ...{ query: aQuery(''), limit: 9, after: null, until: null, size: 9 },
      ...{ behind: null, before: null },
    };
    const ranked = async (by: RankField, isAscending: boolean) => {
      const found = await store.ranks.rankTraces(P, { ...look, by, isAscending });
      return found.traces.map(({ n, value }) => [n, value]);
    };
    const largest = Number.MAX_SAFE_INTEGER;
    t.same(await ranked('tokens', false), [
      [2, largest],
      [1, 1],
    ]);
    t.same(await ranked('tokens', true), [
      [1, 1],
      [2, largest],
    ]);
    t.same((await ranked('cost', false))[0], [2, largest]);
    const [first] = (await store.ranks.rankTraces(P, { ...look, by: 'cost', isAscending: false }))
      .traces;
    const behind = { ...look, by: 'cost', isAscending: false, behind: first ?? null } as const;
    t.match((await store.ranks.rankTraces(P, behind)).traces, [{ n: 1 }]);
    t.equal((await store.traces.listTraces(P, { limit: 9 })).items.length, 2);
  },
);
