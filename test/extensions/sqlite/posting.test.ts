import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import fc from 'fast-check';
import type { Test } from 'tap';
import t from 'tap';
import {
  postingOperations,
  STEP_POSTINGS,
} from '../../../extensions/sqlite/traces/posting-operations.ts';
import { MAX_TERMS } from '../../../src/store/rows/trace-terms.ts';
import type { Store } from '../../../src/store/store.ts';
import { anObservation, aTenant, nativeBatch } from '../../helper/batches.ts';
import { sqlitePlace } from '../../helper/places.ts';
import { aQuery } from '../../helper/query.ts';

const T0 = Date.UTC(2026, 0, 15, 12);
const P = 'proj_posting';

type Made = { readonly id: string; readonly model: string; readonly ms: number };

async function write(store: Store, traces: readonly Made[]): Promise<void> {
  const observations = traces.map(({ id, model, ms }, index) => ({
    ...anObservation({ traceId: id, id: `o${id}`, model, kind: 'llm' }),
    ...{ startTime: { ms: T0 + ms, ns: 0 }, index },
  }));
  const about = { receivedAt: T0, tenant: aTenant({ projectId: P }) };
  const source = nativeBatch(traces.length, about);
  await store.traces.write({ kind: 'observations', source, observations });
}

async function opened(t: Test) {
  const place = sqlitePlace(t);
  const { store, close, finish } = await place.open();
  const db = new DatabaseSync(join(place.directory, 'store.db'), { timeout: 5000 });
  t.teardown(async () => {
    db.close();
    await close();
  });
  return { ...place, store, finish, db, post: postingOperations(db)['traces.post'] };
}

function numbersIn(db: DatabaseSync) {
  return db
    .prepare(
      `SELECT (SELECT count(DISTINCT trace) FROM trace_terms) AS posted,
         (SELECT n FROM posted_traces) AS last, (SELECT max(n) FROM traces) AS newest`,
    )
    .get();
}

function made(count: number): Made[] {
  return Array.from({ length: count }, (_, i) => ({ id: `t${i}`, model: 'm', ms: i }));
}

t.test('a step ends with the trace that fills it, and the next one posts the rest', async (t) => {
  const { store, db, post } = await opened(t);
  t.equal(post(), false, 'an empty store');
  await write(store, made(1));
  t.match(numbersIn(db), { posted: 0, last: 0, newest: 1 });
  t.equal(post(), false);
  const { count } = { ...db.prepare('SELECT count(*) AS count FROM trace_terms').get() };
  const full = Math.ceil(STEP_POSTINGS / Number(count));
  let newest = 1;
  const some = async (length: number) => {
    await write(
      store,
      made(length).map((one) => ({ ...one, id: `${newest}-${one.id}` })),
    );
    newest += length;
  };
  await some(full - 1);
  t.equal(post(), false);
  t.match(numbersIn(db), { posted: newest, last: newest, newest });
  await some(full);
  t.equal(post(), true);
  t.match(numbersIn(db), { posted: newest, last: newest, newest });
  t.equal(post(), false);
  await some(full + 1);
  t.equal(post(), true);
  t.match(numbersIn(db), { posted: newest - 1, last: newest - 1, newest });
  t.equal(post(), false);
  t.match(numbersIn(db), { posted: newest, last: newest, newest });
});

t.test('the background posts two seconds after a write, and the rest after a start', async (t) => {
  const { store, db, clock, finish } = await opened(t);
  await finish();
  await write(store, made(1));
  clock.advance(1_999);
  t.match(numbersIn(db), { posted: 0 });
  clock.advance(1);
  await finish();
  t.match(numbersIn(db), { posted: 1, last: 1 });
});

t.test(
  'a change of a posted trace changes its postings at once, and of a waiting one its row',
  async (t) => {
    const { store, post, termTables } = await opened(t);
    const find = async (text: string) => {
      const filter = { limit: 9, query: aQuery(text, T0) };
      return (await store.traces.listTraces(P, filter)).items.map(({ id }) => id);
    };
    await write(store, [{ id: 'posted', model: 'a', ms: 1 }]);
    post();
    await write(store, [{ id: 'waiting', model: 'a', ms: 2 }]);
    t.same(await find('model:a kind:llm'), ['waiting', 'posted']);
    const again = (id: string) => write(store, [{ id, model: 'b', ms: 3 }]);
    await again('posted');
    await again('waiting');
    t.same(await find('model:a'), []);
    t.same((await find('model:b')).sort(), ['posted', 'waiting']);
    const { posted, recounted } = await termTables();
    t.same(posted, recounted);
  },
);

t.test('a waiting trace with more terms than are indexed is found by each of them', async (t) => {
  const { store, post } = await opened(t);
  const names = Array.from({ length: MAX_TERMS + 1 }, (_, i) => `name${i}`);
  const observations = names.map((name, index) => ({
    ...anObservation({ traceId: 'large', id: `o${index}`, name, model: 'm' }),
    index,
  }));
  const source = nativeBatch(names.length, { receivedAt: T0, tenant: aTenant({ projectId: P }) });
  await store.traces.write({ kind: 'observations', source, observations });
  await write(store, [{ id: 'other', model: 'm', ms: 0 }]);
  for (const state of ['waiting', 'posted']) {
    const query = aQuery(`span:name${MAX_TERMS} model:m`, T0);
    const { items } = await store.traces.listTraces(P, { limit: 9, query });
    t.same(
      items.map(({ id }) => id),
      ['large'],
      state,
    );
    post();
  }
});

t.test(
  'a store without the number of the last posted trace finds all, and posts again',
  async (t) => {
    const { store, db, post, termTables } = await opened(t);
    await write(store, made(3));
    post();
    db.exec('DELETE FROM posted_traces');
    const filter = { limit: 9, query: aQuery('model:m', T0) };
    t.equal((await store.traces.listTraces(P, filter)).items.length, 3);
    post();
    t.match(numbersIn(db), { posted: 3, last: 3 });
    const { posted, recounted } = await termTables();
    t.same(posted, recounted);
  },
);

t.test('a number that a removed trace had is posted at once', async (t) => {
  const { store, db, post, termTables, finish } = await opened(t);
  const { id } = await store.projects.create('short');
  const source = nativeBatch(1, { receivedAt: T0, tenant: aTenant({ projectId: id }) });
  const observations = [{ ...anObservation({ traceId: 'gone' }), index: 0 }];
  await store.traces.write({ kind: 'observations', source, observations });
  post();
  await store.projects.delete(id);
  await finish();
  await write(store, made(1));
  t.match(numbersIn(db), { posted: 1, last: 1, newest: 1 });
  const { posted, recounted } = await termTables();
  t.same(posted, recounted);
});

t.test(
  'pages have posted and waiting traces in order, whatever is posted in between',
  async (t) => {
    const { store, post } = await opened(t);
    let run = 0;
    const trace = fc.record({ model: fc.constantFrom('m', 'n', 'o'), ms: fc.nat(6) });
    const batch = fc.record({
      traces: fc.array(trace, { minLength: 1, maxLength: 6 }),
      isPosted: fc.boolean(),
    });
    const asked = fc.record({
      text: fc.constantFrom('model:m', 'model:m,n', 'model:m kind:llm', 'kind:llm -model:m'),
      isAscending: fc.boolean(),
      size: fc.integer({ min: 1, max: 4 }),
      limit: fc.integer({ min: 1, max: 5 }),
    });
    const batches = fc.array(batch, { minLength: 1, maxLength: 5 });
    await fc.assert(
      fc.asyncProperty(batches, asked, async (list, { text, isAscending, size, limit }) => {
        const prefix = `r${run++}`;
        const all: Made[] = [];
        for (const { traces, isPosted } of list) {
          const added = traces.map((one, i) => ({ ...one, id: `${prefix}-${all.length + i}` }));
          await write(store, added);
          all.push(...added);
          if (isPosted) post();
        }
        const found: string[] = [];
        const query = aQuery(`${text} id:${prefix}-*`, T0);
        let cursor: string | null | undefined;
        for (let pages = 0; cursor !== null; pages++) {
          if (pages > 1000) throw new Error('the pages do not end');
          const filter = { limit, query, size, isAscending };
          const page = await store.traces.listTraces(
            P,
            cursor === undefined ? filter : { ...filter, cursor },
          );
          found.push(...page.items.map(({ id }) => id));
          cursor = page.nextCursor;
        }
        const wanted = all.filter(({ model }) => holds(text, model)).sort((a, b) => a.ms - b.ms);
        const ids = (isAscending ? wanted : wanted.reverse()).map(({ id }) => id);
        t.same(found, ids);
      }),
      { numRuns: 60 },
    );
  },
);

function holds(text: string, model: string): boolean {
  if (text.startsWith('kind')) return model !== 'm';
  return text.includes('m,n') ? model !== 'o' : model === 'm';
}
