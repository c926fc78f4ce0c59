import type { Test } from 'tap';
import t from 'tap';
import {
  expireTracesStep,
  removeFreeBatchesStep,
  removeWhole,
} from '../../../extensions/postgres/batches/purge.ts';
import { openPostgres } from '../../../extensions/postgres/connection/pool.ts';
import { postgresTextDialect } from '../../../extensions/postgres/search/dialect.ts';
import { configureSearch, searchTables } from '../../../extensions/postgres/search/tables.ts';
import {
  dayOfNumber,
  daysOfTraces,
  firstNumberOf,
  NUMBERS_A_DAY,
} from '../../../extensions/postgres/traces/numbers.ts';
import {
  daysFor,
  ensureTracePartitions,
  removedByRow,
  TRACE_TABLES,
  tracePartitions,
} from '../../../extensions/postgres/traces/partitions.ts';
import {
  detachedPartitions,
  retirePartitions,
} from '../../../extensions/postgres/traces/retiring.ts';
import { postgresTraces } from '../../../extensions/postgres/traces/traces.ts';
import { systemClock } from '../../../src/component/clock.ts';
import { observe } from '../../../src/model/formats.ts';
import { encodeTime } from '../../../src/model/ulid.ts';
import { indexTexts } from '../../../src/store/search/indexer.ts';
import { textCutter } from '../../../src/store/search/text-cutter.ts';
import { anObservation, aTenant, nativeBatch } from '../../helper/batches.ts';
import { migratedDatabase } from '../../helper/migrated-database.ts';
import { postgresPlace } from '../../helper/postgres-place.ts';
import { postgresDatabases } from '../../helper/postgres-server.ts';
import { aQuery } from '../../helper/query.ts';
import { recordingLogger } from '../../helper/settings.ts';
import { postgresTermTables } from '../../helper/term-tables.ts';
import { batchWith, GROUPS, traceDatabase } from '../../helper/trace-database.ts';

const server = await postgresDatabases(t);
const P = aTenant().projectId;
const OTHER = aTenant({ projectId: 'proj_other' });
const DAY = 86_400_000;
const D15 = Date.UTC(2026, 0, 15);
const D16 = D15 + DAY;
const T0 = D15 + DAY / 2;
const DEPENDENT = ['trace_keys', 'batch_traces'];
const TABLES = ['traces', 'observations', ...DEPENDENT];

const TEXT_BYTES = 4096;

function event(trace: string, id: string, inputs: string): Record<string, unknown> {
  return { id, trace_id: trace, operation: 'finish', kind: 'generation', name: 'chat', inputs };
}

let ids = 0;
function at(ms: number, more: object = {}) {
  return { id: encodeTime(ms) + String(ids++).padStart(16, '0'), receivedAt: ms, ...more };
}

async function placeWith(t: Test, days: 1 | 7 | 30 = 1) {
  const url = await migratedDatabase(server);
  const place = await traceDatabase(t, url);
  t.ok(await ensureTracePartitions(place.postgres, T0, days));
  const removed = { traces: 0, observations: 0 };
  const since = new Map<string, number>();
  return {
    ...place,
    ...{ url, removed },
    since,
    names: async () => (await tracePartitions(place.postgres)).map(({ suffix }) => suffix),
    counts: async (tables = TABLES) => Promise.all(tables.map(place.count)),
    async retire(now = D16) {
      const sinceOf = (project: string) => since.get(project) ?? Number.MIN_SAFE_INTEGER;
      const steps = retirePartitions(place.database, sinceOf, now, ({ traces, observations }) => {
        removed.traces += traces ?? 0;
        removed.observations += observations ?? 0;
      });
      for await (const _ of steps);
    },
  };
}

const FIRST = ['first', '20260115', '20260116', '20260117', '20260118', '20260119'];

t.test('numbers grow with the day, and stay safe integers', (t) => {
  t.equal(firstNumberOf(0), 0);
  t.equal(firstNumberOf(-1), 0);
  t.equal(firstNumberOf(DAY - 1), 0);
  t.equal(firstNumberOf(DAY), NUMBERS_A_DAY);
  t.equal(dayOfNumber(firstNumberOf(T0) + NUMBERS_A_DAY - 1), D15);
  t.equal(firstNumberOf(Number.MAX_SAFE_INTEGER) + NUMBERS_A_DAY - 1, Number.MAX_SAFE_INTEGER);
  const n = firstNumberOf(T0);
  t.same(daysOfTraces([n + 5]), [n, n + NUMBERS_A_DAY]);
  t.same(daysOfTraces([n + NUMBERS_A_DAY, n - 1]), [n - NUMBERS_A_DAY, n + 2 * NUMBERS_A_DAY]);
  t.end();
});

t.test('the days of a partition follow the longest retention', (t) => {
  t.same([[], [14], [14, 15], [98], [7, 99], [Number.POSITIVE_INFINITY]].map(daysFor), [
    ...[1, 1, 7, 7, 30, 30],
  ]);
  t.end();
});

t.test('processes that start together create each partition once', async (t) => {
  const { postgres, names, count, traces } = await placeWith(t);
  await Promise.all([1, 2, 3].map(() => ensureTracePartitions(postgres, T0 + DAY, 1)));
  t.same(await names(), [...FIRST, '20260120']);
  await traces.write(batchWith([anObservation()], at(T0)));
  await postgres.query(
    `INSERT INTO payload_texts (trace, observation, words, tokens) SELECT trace, n, '', '{}' FROM observations`,
  );
  for (const { table, options } of TRACE_TABLES) {
    t.ok(await count(`${table}_20260115`), table);
    t.equal(await count(`${table}_20260115`), await count(table), table);
    const { rows } = await postgres.query(
      `SELECT array_to_string(reloptions, ', ') AS options FROM pg_class WHERE relname = $1`,
      [`${table}_20260115`],
    );
    t.equal(rows[0]?.options, options.replaceAll(' = ', '='));
  }
});

t.test('a change of the days applies behind the existing partitions', async (t) => {
  const { postgres, names } = await placeWith(t);
  t.ok(await ensureTracePartitions(postgres, T0 + 10 * DAY, 7));
  const known = await tracePartitions(postgres);
  t.same(await names(), [...FIRST, '20260122', '20260129']);
  t.same(known.at(-2), {
    ...{ suffix: '20260122', from: firstNumberOf(D15 + 7 * DAY) },
    ...{ to: firstNumberOf(D15 + 14 * DAY), endsAt: D15 + 14 * DAY },
  });
  t.ok(await ensureTracePartitions(postgres, T0 + 5 * DAY, 30));
  const gap = (await tracePartitions(postgres)).find(({ suffix }) => suffix === '20260120');
  t.equal(gap?.endsAt, D15 + 7 * DAY, 'a gap is filled, and nothing overlaps');
});

t.test('a trace of a day without a partition is stored, and the next days get one', async (t) => {
  const place = await traceDatabase(t, await migratedDatabase(server));
  const { postgres, traces, count } = place;
  await traces.write(batchWith([anObservation()], at(T0)));
  t.equal(await count('traces_default'), 1);
  t.ok(await ensureTracePartitions(postgres, T0, 30, 0));
  t.same(
    (await tracePartitions(postgres)).map(({ suffix }) => suffix),
    ['first'],
  );
  t.ok(await ensureTracePartitions(postgres, T0, 30, 1));
  t.same((await tracePartitions(postgres)).at(-1)?.suffix, '20260116');
  t.equal((await traces.getTrace(P, 'trace-1'))?.observationCount, 1);
});

t.test('retention drops a partition exactly when its last trace is expired', async (t) => {
  const { traces, retire, since, names, removed, counts, database } = await placeWith(t);
  const observations = [1, 2, 3].map((i) => anObservation({ id: `o${i}`, traceId: 'old' }));
  await traces.write(batchWith(observations, at(D16 - 1)));
  await traces.write(batchWith([anObservation({ traceId: 'kept' })], at(D16)));
  since.set(P, D16 - 1);
  await retire();
  t.ok((await names()).includes('20260115'), 'its last millisecond is not expired');
  since.set(P, D16);
  await retire(D16 - 1);
  t.ok((await names()).includes('20260115'), 'its last day is not over');
  await retire(D16);
  t.same(await names(), FIRST.slice(2));
  t.same(removed, { traces: 1, observations: 3 });
  t.same(await counts(), [1, 1, 1, 1]);
  t.equal(await traces.getTrace(P, 'old'), undefined);
  t.equal((await traces.getTrace(P, 'kept'))?.observationCount, 1);
  t.notOk(await removeFreeBatchesStep(database, Number.MAX_SAFE_INTEGER));
  t.same(await counts(['batches', 'free_batches']), [1, 0]);
});

t.test('a reader of a partition delays its drop alone', async (t) => {
  const { traces, since, postgres, removed, counts, retire } = await placeWith(t);
  const sinceOf = (project: string) => since.get(project) ?? 0;
  await traces.write(batchWith([anObservation({ traceId: 'old' })], at(T0)));
  since.set(P, D16);
  const detached = async () =>
    (await detachedPartitions(postgres)).filter(({ suffix }) => suffix === '20260115');
  const steps = retirePartitions(postgres, sinceOf, D16, () => undefined);
  while ((await detached()).length === 0) await steps.next();
  t.same(await detached(), [{ suffix: '20260115', isClean: false }], 'an erasure waits');
  await postgres.transaction(async (client) => {
    // As a dump does.
    await client.query('LOCK TABLE detached_traces_20260115 IN ACCESS SHARE MODE');
    for await (const _ of steps);
    t.same(await detached(), [{ suffix: '20260115', isClean: true }], 'no erasure waits');
    t.same(await counts(), [0, 0, 0, 0]);
    await retire();
  });
  await retire();
  t.same(await detached(), []);
  t.same(removed, { traces: 0, observations: 0 }, 'its traces are counted once');
});

t.test('a vacuum of a detached partition holds up no housekeeping', async (t) => {
  const { traces, since, postgres, database, counts, retire } = await placeWith(t);
  await traces.write(batchWith([anObservation({ traceId: 'old' })], at(T0)));
  since.set(P, D16);
  const detached = async () =>
    (await detachedPartitions(postgres)).filter(({ suffix }) => suffix === '20260115');
  let removed = 0;
  const cleaned = new Set<string>();
  const steps = () =>
    retirePartitions(
      database,
      (project) => since.get(project) ?? 0,
      D16,
      ({ traces: some }) => {
        removed += some ?? 0;
      },
      cleaned,
    );
  const first = steps();
  while ((await detached()).length === 0) await first.next();
  await postgres.transaction(async (client) => {
    await client.query('LOCK TABLE detached_traces_20260115 IN SHARE UPDATE EXCLUSIVE MODE');
    for await (const _ of first);
    for await (const _ of steps());
    t.same(await detached(), [{ suffix: '20260115', isClean: false }]);
    t.same(await counts(), [0, 0, 0, 0]);
    t.equal(removed, 1, 'its traces are counted once');
  });
  for await (const _ of steps());
  t.same(await detached(), []);
  t.same([...cleaned], []);
  await retire();
});

t.test('a trace with a late update moves, and its partition is dropped', async (t) => {
  const { traces, retire, since, names, removed, counts, count, url } = await placeWith(t);
  const late = anObservation({ id: 'a', traceId: 'late', name: 'first', sessionId: 's' });
  await traces.write(batchWith([late, anObservation({ id: 'x', traceId: 'old' })], at(T0)));
  await traces.write(batchWith([anObservation({ id: 'b', traceId: 'late' })], at(D16)));
  since.set(P, D16);
  await retire();
  t.same(await names(), FIRST.slice(2));
  t.same(removed, { traces: 1, observations: 1 });
  t.equal(await count('traces_20260116'), 1);
  t.equal(await count('observations_20260116'), 2);
  const { posted, recounted } = await postgresTermTables(url);
  t.ok(posted.length > 0);
  t.same(posted, recounted);
  t.same(await counts(), [1, 2, 1, 2]);
  const listed = await traces.listObservations(P, 'late', { limit: 9 });
  t.same(listed.items.map(({ id }) => id).sort(), ['a', 'b']);
  const page = await traces.listTraces(P, { limit: 9 });
  t.same(
    page.items.map(({ id }) => id),
    ['late'],
  );
  await traces.write(batchWith([anObservation({ id: 'c', traceId: 'late' })], at(D16)));
  t.equal((await traces.getTrace(P, 'late'))?.observationCount, 3);
  since.set(P, D16 + DAY);
  await retire(D16 + DAY);
  t.same(await counts([...TABLES, 'trace_terms']), [0, 0, 0, 0, 0]);
});

t.test('the payload text of a trace that moved is found', async (t) => {
  const { traces, retire, since, names, count, postgres, database } = await placeWith(t);
  const cutter = textCutter(traces);
  t.teardown(() => cutter.close());
  await configureSearch(database, TEXT_BYTES);
  const index = async () => {
    for await (const _ of indexTexts(searchTables(postgres, TEXT_BYTES), cutter));
  };
  const retention = { since: (project: string) => since.get(project) ?? 0 };
  const reading = postgresTraces(database, retention, GROUPS, {
    ...{ client: postgres, dialect: postgresTextDialect, staleBefore: () => 0, now: () => 0 },
  });
  const found = async (text: string) => {
    const page = await reading.listTraces(P, { limit: 9, query: aQuery(text, D16) });
    return page.items.map(({ id }) => id);
  };
  const write = async (ms: number, events: readonly Record<string, unknown>[]) => {
    const source = nativeBatch(events, at(ms));
    await traces.write({ kind: 'observations', source, observations: observe(source) });
  };
  await write(T0, [event('late', 'a', 'first words'), event('old', 'x', 'other words')]);
  await index();
  t.same(await found('first'), ['late']);
  await write(D16, [event('late', 'b', 'second words')]);
  since.set(P, D16);
  await retire();
  t.same(await names(), FIRST.slice(2), 'the partition is gone, and the trace is in the next one');
  await index();
  t.same(await count('text_changes'), 0);
  t.same(await count('payload_texts_20260116'), 2);
  t.same(await count('payload_texts'), 2);
  t.same([await found('first'), await found('"second words"')], [['late'], ['late']]);
  t.same(await found('other'), []);
});

t.test('the words of a trace that moved go with it, even if the partition stays', async (t) => {
  const { traces, since, names, count, postgres, database } = await placeWith(t);
  const cutter = textCutter(traces);
  t.teardown(() => cutter.close());
  await configureSearch(database, TEXT_BYTES);
  const index = async () => {
    for await (const _ of indexTexts(searchTables(postgres, TEXT_BYTES), cutter));
  };
  const write = async (ms: number, events: readonly Record<string, unknown>[]) => {
    const source = nativeBatch(events, at(ms));
    await traces.write({ kind: 'observations', source, observations: observe(source) });
  };
  await write(T0, [event('late', 'a', 'first words'), event('old', 'x', 'other words')]);
  await index();
  await write(D16, [event('late', 'b', 'second words')]);
  since.set(P, D16);
  // The retention of the project is raised between the move and the drop.
  let asked = 0;
  const steps = retirePartitions(
    database,
    () => (asked++ === 0 ? D16 : 0),
    D16,
    () => {},
  );
  for await (const _ of steps);
  t.same(await names(), FIRST.slice(1), 'the partition stays');
  await index();
  t.equal(await count('payload_texts'), 3);
  const { rows } = await postgres.query("SELECT n FROM traces WHERE key = 'late'::bytea");
  const numbers = rows.map(({ n }) => Number(n));
  await database.transaction((client) => removeWhole(client, numbers, D16, () => {}));
  t.equal(await count('payload_texts'), 1);
});

t.test('a trace that is written to while it moves keeps every observation', async (t) => {
  const { traces, retire, since, names } = await placeWith(t);
  const writes: Promise<void>[] = [];
  const numbers = Array.from({ length: 40 }, (_, i) => i);
  const write = (i: number, id: string, ms: number) =>
    traces.write(batchWith([anObservation({ id, traceId: `late${i}` })], at(ms)));
  for (const i of numbers) await write(i, 'a', T0);
  for (const i of numbers) await write(i, 'b', D16);
  since.set(P, D16);
  const retired = retire();
  for (const i of numbers) writes.push(write(i, 'c', D16), write(i, 'd', D16 + DAY));
  await Promise.all([retired, ...writes]);
  await retire();
  t.notOk((await names()).includes('20260115'));
  for (const i of numbers) {
    t.equal((await traces.getTrace(P, `late${i}`))?.observationCount, 4);
  }
});

t.test('a partition waits if a tenth of its traces and more stay', async (t) => {
  const { traces, retire, since, names, counts, postgres } = await placeWith(t);
  const numbers = Array.from({ length: 1100 }, (_, i) => i);
  const some = (list: readonly number[]) =>
    list.map((i) => anObservation({ id: `o${i}`, traceId: `t${i}` }));
  await traces.write(batchWith(some(numbers), at(T0)));
  await traces.write(batchWith(some(numbers.slice(0, 111)), at(D16)));
  await postgres.query('ANALYZE traces_20260115');
  since.set(P, D16);
  await retire();
  t.ok((await names()).includes('20260115'), '111 of 1100');
  await postgres.query(
    'UPDATE traces SET updated_at = created_at WHERE updated_at = $1 AND n = (SELECT n FROM traces WHERE updated_at = $1 LIMIT 1)',
    [D16],
  );
  await retire();
  t.notOk((await names()).includes('20260115'), '110 of 1100');
  t.same(await counts(), [110, 110, 110, 220]);
});

t.test('a partition waits for the project with the longest retention', async (t) => {
  const { traces, retire, since, names, database, postgres, counts } = await placeWith(t);
  await traces.write(batchWith([anObservation({ traceId: 'short' })], at(T0)));
  await traces.write(batchWith([anObservation({ traceId: 'long' })], at(T0, { tenant: OTHER })));
  since.set(P, D16 + DAY + 2 * 3_600_000 - 1).set(OTHER.projectId, D16 - 1);
  await retire();
  t.ok((await names()).includes('20260115'));
  const partitions = await tracePartitions(postgres);
  const expire = (ms: number) =>
    expireTracesStep(database, P, ms, T0, () => {}, removedByRow(partitions, ms));
  t.notOk(await expire(since.get(P) ?? 0), 'expired rows wait 26 hours for their partition');
  t.same(await counts(), [2, 2, 2, 2]);
  t.ok(await expire(D16 + DAY + 2 * 3_600_000));
  t.same(await counts(), [1, 1, 1, 1]);
  since.set(OTHER.projectId, D16);
  await retire();
  t.same(await counts(), [0, 0, 0, 0]);
});

t.test('a write creates a trace again whose partition is being removed', async (t) => {
  const { traces, postgres, since, retire, counts, removed } = await placeWith(t);
  const run = (id: string, parentId: string | null) =>
    anObservation({ id, traceId: null, parentId });
  await traces.write(batchWith([anObservation({ traceId: 'old' }), run('r', 'none')], at(T0)));
  // As after a crash: detached, and nothing is removed yet.
  for (const { table } of TRACE_TABLES) {
    await postgres.query(`ALTER TABLE ${table} DETACH PARTITION ${table}_20260115`);
    await postgres.query(`ALTER TABLE ${table}_20260115 RENAME TO detached_${table}_20260115`);
  }
  t.equal(await traces.getTrace(P, 'old'), undefined);
  await traces.write(batchWith([anObservation({ traceId: 'old', name: 'new' })], at(D16)));
  await traces.write(batchWith([run('r', 'none')], at(D16)));
  since.set(P, D16);
  await retire();
  t.match(await traces.getTrace(P, 'old'), { observationCount: 1, name: 'new' });
  t.equal(removed.traces, 2);
  t.same(await counts(), [2, 2, 2, 2]);
});

t.test('a write touches no partition but those of its traces', async (t) => {
  const { traces, postgres } = await placeWith(t);
  const write = (id: string, name: string) =>
    traces.write(batchWith([anObservation({ id, name })], at(T0)));
  await write('a', 'one');
  const written = Promise.withResolvers<void>();
  const locked = Promise.withResolvers<void>();
  const locking = postgres.transaction(async (client) => {
    for (const { table } of TRACE_TABLES) {
      await client.query(`LOCK TABLE ${table}_20260116, ${table}_first, ${table}_default`);
    }
    locked.resolve();
    await written.promise;
  });
  await locked.promise;
  await write('a', 'two');
  await write('b', 'three');
  await traces.write(batchWith([anObservation({ traceId: 'other' })], at(T0)));
  written.resolve();
  await locking;
  t.equal((await traces.getTrace(P, 'trace-1'))?.observationCount, 2);
});

t.test('a role that does not own the tables removes rows of old partitions', async (t) => {
  const url = await migratedDatabase(server);
  const { postgres, traces, count } = await traceDatabase(t, url);
  await postgres.query('CREATE ROLE reader_writer LOGIN');
  await postgres.query(
    'GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO reader_writer',
  );
  await postgres.query('GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO reader_writer');
  // The role has no rights on a partition of its own.
  await ensureTracePartitions(postgres, T0, 1);
  await traces.write(batchWith([anObservation()], at(T0)));
  const other = await openPostgres({
    ...{ url: url.replace('test@', 'reader_writer@'), maxConnections: 2, connectTimeout: 5_000 },
    ...{ queryTimeout: 20_000, tls: undefined, clock: systemClock, logger: recordingLogger() },
  });
  t.teardown(() => other.close());
  t.notOk(await ensureTracePartitions(other, T0 + 30 * DAY, 1));
  const since = D16 + 10 * DAY;
  for await (const _ of retirePartitions(
    other,
    () => since,
    since,
    () => {},
  ));
  t.equal(await count('traces'), 1);
  const before = removedByRow(await tracePartitions(other), since);
  t.ok(await expireTracesStep(other, P, since, T0, () => {}, before));
  t.equal(await count('traces'), 0);
});

t.test('the store creates partitions of its projects, and drops them', async (t) => {
  const place = await postgresPlace(server);
  // By the clock of the database no time of this test is in the future.
  place.clock.set(place.clock.now() - 1000 * DAY);
  const { store, finish, close, postgres } = await place.open();
  t.teardown(close);
  const [project] = await store.projects.list();
  const tenant = aTenant({ projectId: project?.id ?? '' });
  await store.traces.write(batchWith([anObservation()], at(place.clock.now(), { tenant })));
  const before = await tracePartitions(postgres);
  t.equal(before.at(-1)?.endsAt, Math.ceil(place.clock.now() / (30 * DAY)) * 30 * DAY);
  const end = before.at(-1)?.endsAt ?? 0;
  place.clock.set(end + 400 * DAY);
  await finish();
  const after = await tracePartitions(postgres);
  t.notOk(after.some(({ endsAt }) => endsAt <= end));
  const reason = 'retention';
  t.equal(place.metrics.value('tracectl_store_removed_traces_total', { reason }), 1);
  t.same((await postgres.query('SELECT 1 FROM trace_keys')).rows, []);
});
