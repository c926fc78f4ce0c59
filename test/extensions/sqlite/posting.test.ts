import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import fc from 'fast-check';
import type { Test } from 'tap';
import t from 'tap';
import { STORE_MIGRATIONS } from '../../../extensions/sqlite/migrations/index.ts';
import {
  postingOperations,
  STEP_POSTINGS,
  STEP_TRACES,
} from '../../../extensions/sqlite/traces/posting-operations.ts';
import type { Query } from '../../../src/query/query.ts';
import { migrateFile } from '../../../src/sqlite/migrate.ts';
import type { GroupField, GroupSumStep } from '../../../src/store/groups.ts';
import type { Place } from '../../../src/store/rows/place.ts';
import { MAX_TERMS } from '../../../src/store/rows/trace-terms.ts';
import type { Store } from '../../../src/store/store.ts';
import { anObservation, aTenant, nativeBatch } from '../../helper/batches.ts';
import { sqlitePlace } from '../../helper/places.ts';
import { aQuery } from '../../helper/query.ts';

const T0 = Date.UTC(2026, 0, 15, 12);
const P = 'proj_posting';

/** A trace with the same value as session and user. */
type Made = {
  readonly id: string;
  readonly model: string;
  readonly ms: number;
  readonly group?: string;
  readonly tags?: readonly string[];
};

async function write(store: Store, traces: readonly Made[]): Promise<void> {
  const observations = traces.map(({ id, model, ms, group = null, tags = [] }, index) => ({
    ...anObservation({ traceId: id, id: `o${id}`, model, kind: 'llm' }),
    ...{ sessionId: group, userId: group, details: { tags } },
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
  const { 'traces.group': group, 'traces.post': post } = postingOperations(db);
  return { ...place, store, finish, db, group, post };
}

function numbersIn(db: DatabaseSync) {
  return db
    .prepare(
      `SELECT (SELECT count(DISTINCT trace) FROM trace_terms) AS posted,
         (SELECT count(*) FROM traces WHERE is_grouped = 1) AS grouped, (SELECT n FROM posted_traces) AS last, (SELECT max(n) FROM traces) AS newest`,
    )
    .get();
}

function made(count: number): Made[] {
  return Array.from({ length: count }, (_, i) => ({ id: `t${i}`, model: 'm', ms: i }));
}

t.test('a step ends with the trace that fills it, and the next one posts the rest', async (t) => {
  const { store, db, post } = await opened(t);
  const tags = Array.from({ length: 16 }, (_, i) => `tag${i}`);
  t.equal(post(), false, 'an empty store');
  await write(store, [{ id: 't0', model: 'm', ms: 0, tags }]);
  t.match(numbersIn(db), { posted: 0, last: 0, newest: 1 });
  t.equal(post(), false);
  const { count } = { ...db.prepare('SELECT count(*) AS count FROM trace_terms').get() };
  const full = Math.ceil(STEP_POSTINGS / Number(count));
  t.ok(full < STEP_TRACES);
  let newest = 1;
  const some = async (length: number) => {
    await write(
      store,
      made(length).map((one) => ({ ...one, id: `${newest}-${one.id}`, tags })),
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

t.test('a step ends after so many traces, whatever terms they have', async (t) => {
  const { store, db, post } = await opened(t);
  const newest = STEP_TRACES + 1;
  await write(store, made(newest));
  db.exec('UPDATE traces SET terms = NULL');
  t.equal(post(), true);
  t.match(numbersIn(db), { posted: 0, last: STEP_TRACES });
  t.equal(post(), false);
  t.match(numbersIn(db), { posted: 0, last: newest });
});

t.test('the background posts two seconds after a write, and the rest after a start', async (t) => {
  const { store, db, clock, finish } = await opened(t);
  await finish();
  await write(store, made(1));
  clock.advance(1_999);
  t.match(numbersIn(db), { posted: 0 });
  clock.advance(1);
  await finish();
  t.match(numbersIn(db), { posted: 1, grouped: 1, last: 1 });
});

t.test('a step groups so many traces, and the next one the rest', async (t) => {
  const { store, db, group, post } = await opened(t);
  t.equal(group(), false, 'an empty store');
  let grouped = 0;
  const some = async (length: number) => {
    const prefix = grouped;
    await write(
      store,
      made(length).map((one) => ({ ...one, id: `${prefix}-${one.id}`, group: 'g' })),
    );
    t.match(numbersIn(db), { grouped }, 'no write groups');
  };
  const steps = (...changes: readonly [count: number, hasMore: boolean][]) => {
    for (const [count, hasMore] of changes) {
      t.equal(group(), hasMore);
      grouped += count;
      t.match(numbersIn(db), { grouped });
    }
  };
  await some(STEP_TRACES - 1);
  steps([STEP_TRACES - 1, false], [0, false]);
  await some(STEP_TRACES);
  steps([STEP_TRACES, true], [0, false]);
  await some(STEP_TRACES + 1);
  steps([STEP_TRACES, true], [1, false]);
  t.match(numbersIn(db), { posted: 0, last: 0 });
  await some(1);
  while (post());
  t.match(numbersIn(db), { grouped: grouped + 1, posted: grouped + 1 }, 'posting groups too');
});

t.test('a step that grouped in a transaction that failed is made up for', async (t) => {
  const { store, db, group, post } = await opened(t);
  await write(store, made(2));
  db.exec('BEGIN');
  group();
  db.exec('ROLLBACK');
  group();
  t.match(numbersIn(db), { grouped: 0 });
  post();
  t.match(numbersIn(db), { grouped: 2, posted: 2 });
});

t.test('an upgrade has posted traces in the indexes, and leaves waiting ones out', async (t) => {
  const db = new DatabaseSync(join(t.testdir(), 'store.db'));
  t.teardown(() => db.close());
  const before = STORE_MIGRATIONS.findIndex(({ name }) => name === '0022-grouped-traces');
  migrateFile(db, STORE_MIGRATIONS, before);
  for (const n of [1, 2, 3]) {
    db.exec(
      `INSERT INTO traces (n, project, key, at_ms, at_ns, session_id, observations, created_at, updated_at)
       VALUES (${n}, 'p', 'k${n}', ${n}, 0, 's', 1, 0, 0)`,
    );
  }
  db.exec('INSERT OR REPLACE INTO posted_traces VALUES (1, 2)');
  migrateFile(db, STORE_MIGRATIONS);
  const grouped = db.prepare(
    `SELECT n FROM traces INDEXED BY traces_by_session
     WHERE project = 'p' AND session_id = 's' AND is_grouped = 1`,
  );
  t.same(
    grouped.all().map(({ n }) => n),
    [1, 2],
  );
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
  t.match(numbersIn(db), { posted: 1, grouped: 1, last: 1, newest: 1 });
  const { posted, recounted } = await termTables();
  t.same(posted, recounted);
});

/** How far the traces of a batch are posted. */
const STATES = ['waiting', 'grouped', 'posted'] as const;

t.test(
  'pages and sums have posted and waiting traces in order, whatever is posted in between',
  async (t) => {
    const { store, group, post } = await opened(t);
    let run = 0;
    const trace = fc.record({
      model: fc.constantFrom('m', 'n', 'o'),
      ms: fc.nat(6),
      group: fc.constantFrom('a', 'b', 'c'),
    });
    const batch = fc.record({
      traces: fc.array(trace, { minLength: 1, maxLength: 6 }),
      state: fc.constantFrom(...STATES),
    });
    const asked = fc.record({
      text: fc.constantFrom(...Object.keys(HOLDS)),
      isAscending: fc.boolean(),
      size: fc.integer({ min: 1, max: 4 }),
      limit: fc.integer({ min: 1, max: 5 }),
    });
    const batches = fc.array(batch, { minLength: 1, maxLength: 5 });
    await fc.assert(
      fc.asyncProperty(batches, asked, async (list, { text, isAscending, size, limit }) => {
        const prefix = `r${run++}`;
        const all: Made[] = [];
        for (const { traces, state } of list) {
          const added = traces.map((one, i) => ({ ...one, id: `${prefix}-${all.length + i}` }));
          await write(store, added);
          all.push(...added);
          if (state === 'grouped') group();
          if (state === 'posted') post();
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
        const wanted = all.filter((one) => HOLDS[text]?.(one)).sort((a, b) => a.ms - b.ms);
        const ids = (isAscending ? wanted : [...wanted].reverse()).map(({ id }) => id);
        t.same(found, ids);
        for (const by of ['session', 'user'] as const) {
          const ofGroup = wanted.filter((one) => one.group === 'a');
          t.equal(await summed(store, by, query, size), ofGroup.length, by);
        }
      }),
      { numRuns: 60 },
    );
  },
);

/** The traces of the group 'a' that match. */
async function summed(store: Store, by: GroupField, query: Query, size: number): Promise<number> {
  let traces = 0;
  let after: Place | null = null;
  do {
    const step: GroupSumStep = await store.groups.sumGroup(P, 'a', { by, query, after, size });
    traces += step.sums.traces;
    after = step.next;
  } while (after !== null);
  return traces;
}

/** The traces that each query finds. */
const HOLDS: Readonly<Record<string, (trace: Made) => boolean>> = {
  'model:m': ({ model }) => model === 'm',
  'model:m,n': ({ model }) => model !== 'o',
  'model:m kind:llm': ({ model }) => model === 'm',
  'kind:llm -model:m': ({ model }) => model !== 'm',
  'session:a': ({ group }) => group === 'a',
  'user:a,b': ({ group }) => group !== 'c',
  'session:b model:n': ({ group, model }) => group === 'b' && model === 'n',
  'session:a,c user:a': ({ group }) => group === 'a',
};
