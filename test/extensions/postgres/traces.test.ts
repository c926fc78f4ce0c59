import fc from 'fast-check';
import t from 'tap';
import { PACKED_PAGES } from '../../../extensions/postgres/traces/packed-reading.ts';
import { OBSERVATION_PAGE } from '../../../extensions/postgres/traces/reading.ts';
import { summarizeStale } from '../../../extensions/postgres/traces/summarizing.ts';
import { postgresTraces } from '../../../extensions/postgres/traces/traces.ts';
import { RetryableError } from '../../../src/model/errors.ts';
import type { Observation } from '../../../src/model/observation.ts';
import { MAX_SUMMARIZED } from '../../../src/store/rows/written-trace.ts';
import type { TraceStore } from '../../../src/store/store.ts';
import { anObservation, aTenant } from '../../helper/batches.ts';
import { migratedDatabase } from '../../helper/migrated-database.ts';
import { sqlitePlace } from '../../helper/places.ts';
import { postgresDatabases } from '../../helper/postgres-server.ts';
import { nameQuery, textQuery } from '../../helper/query.ts';
import { batchWith, GROUPS, traceDatabase } from '../../helper/trace-database.ts';

const server = await postgresDatabases(t);
const P = aTenant().projectId;
const T0 = Date.UTC(2026, 0, 15, 12);
const FOREVER = { since: () => Number.MIN_SAFE_INTEGER };

t.test('leaves the same rows after concurrent writes as after sequential ones', async (t) => {
  const place = await traceDatabase(t, await migratedDatabase(server));
  const sqlite = await sqlitePlace(t).open();
  t.teardown(() => sqlite.close());
  let runs = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(someEvents(), { minLength: 2, maxLength: 8 }), async (writes) => {
      const tenant = aTenant({ projectId: `proj_${runs++}` });
      const batches = writes.map((events, i) =>
        batchWith(events, { format: 'runs', receivedAt: T0 + i, tenant }),
      );
      for (const batch of batches) await sqlite.store.traces.write(batch);
      // Twice, as after a crash of the delivering process.
      const all = [...batches, ...batches.toReversed()];
      await Promise.all(all.map((batch) => place.traces.write(batch)));
      const [together, apart] = await Promise.all(
        [place.traces, sqlite.store.traces].map((traces) => everything(traces, tenant.projectId)),
      );
      if (!t.same(together, apart)) throw new Error('the order of writes shows');
    }),
    { numRuns: 30, endOnFailure: true },
  );
});

t.test('small batches of one moment share a transaction, up to 100 observations', async (t) => {
  const { database } = await traceDatabase(t, await migratedDatabase(server));
  let transactions = 0;
  const transaction: typeof database.transaction = (work) => {
    transactions++;
    return database.transaction(work);
  };
  const traces = postgresTraces({ ...database, transaction }, FOREVER, GROUPS);
  const writeAll = async (batches: number, observations: number): Promise<number> => {
    const before = transactions;
    const events = () =>
      Array.from({ length: observations }, (_, i) => anObservation({ id: `o${i}` }));
    const writes = Array.from({ length: batches }, () => traces.write(batchWith(events())));
    await Promise.all(writes);
    return transactions - before;
  };
  t.equal(await writeAll(50, 2), 1);
  t.equal(await writeAll(51, 2), 2);
  t.equal(await writeAll(2, 100), 2, 'large batches are prepared while others are written');
});

t.test('loses no update and has no deadlock with many writers of the same traces', async (t) => {
  const { traces, postgres } = await traceDatabase(t, await migratedDatabase(server));
  const names = ['a', 'b', 'c', 'd', 'e'];
  const writes = Array.from({ length: 40 }, (_, i) => {
    const order = i % 2 === 0 ? names : names.toReversed();
    const usage = { input_tokens: 1 };
    return batchWith(order.map((traceId) => anObservation({ traceId, id: `o${i}`, usage })));
  });
  await Promise.all(writes.map((batch) => traces.write(batch)));
  for (const name of names) {
    const trace = await traces.getTrace(P, name);
    t.match(trace, { observationCount: 40, usage: { input_tokens: 40 } });
  }
  const { rows } = await postgres.query(
    'SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()',
  );
  t.equal(Number(rows[0]?.deadlocks), 0);
});

t.test('inserts a new trace once, with its summary', async (t) => {
  const { traces, postgres } = await traceDatabase(t, await migratedDatabase(server));
  const events = (traceIds: readonly string[], id: string) =>
    batchWith(traceIds.map((traceId) => anObservation({ traceId, id })));
  const rowsOf = async () => {
    const { rows } = await postgres.query(
      'SELECT ctid::text AS place, observations, stale_changes FROM traces ORDER BY n',
    );
    return rows;
  };
  await traces.write(events(['a', 'b'], 'o1'));
  const row = { observations: 1, stale_changes: 0 };
  t.same(await rowsOf(), [
    { place: '(0,1)', ...row },
    { place: '(0,2)', ...row },
  ]);
  await traces.write(events(['b', 'c'], 'o2'));
  t.same(await rowsOf(), [
    { place: '(0,1)', ...row },
    { place: '(0,4)', observations: 2, stale_changes: 0 },
    { place: '(0,3)', ...row },
  ]);
});

t.test('a write of new traces locks the table of traces before the others', async (t) => {
  const { traces, postgres, count } = await traceDatabase(t, await migratedDatabase(server));
  let write = Promise.resolve();
  await postgres.transaction(async (client) => {
    await client.query('LOCK TABLE ONLY traces IN ACCESS EXCLUSIVE MODE');
    write = traces.write(batchWith([anObservation()]));
    const isWaiting = async () => {
      const sql = `SELECT 1 FROM pg_locks WHERE relation = 'traces'::regclass AND NOT granted`;
      return (await client.query(sql)).rows.length > 0;
    };
    while (!(await isWaiting()));
    await client.query(`SET LOCAL lock_timeout = '100ms'`);
    await client.query('LOCK TABLE ONLY observations, ONLY trace_terms IN ACCESS EXCLUSIVE MODE');
  });
  await write;
  t.equal(await count('traces'), 1);
});

t.test('a trace of which no observation is kept leaves no key', async (t) => {
  const place = await traceDatabase(t, await migratedDatabase(server));
  const copied = { name: 'a', sentTwice: true, startTime: { ms: T0, ns: 0 } } as const;
  const run = anObservation({ ...copied, traceId: 'run', id: 'run' });
  await place.traces.write(batchWith([run], { format: 'runs' }));
  const traceId = '1'.repeat(32);
  const span = anObservation({ ...copied, traceId, id: `${traceId}:${'2'.repeat(16)}` });
  await place.traces.write(batchWith([span], { format: 'otlp_proto' }));
  t.equal(await place.count('traces'), 1);
  t.equal(await place.count('trace_keys'), 1);
  const other = anObservation({ traceId, id: 'other' });
  await place.traces.write(batchWith([other]));
  t.equal((await place.traces.getTrace(P, traceId))?.observationCount, 1);
});

t.test('a new trace may be too large for a summary', async (t) => {
  const { traces, postgres, count } = await traceDatabase(t, await migratedDatabase(server));
  const children = Array.from({ length: MAX_SUMMARIZED + 1 }, (_, i) =>
    anObservation({ traceId: null, parentId: 'parent', id: `child-${i}` }),
  );
  await traces.write(batchWith(children, { format: 'runs' }));
  t.equal(await count('traces'), children.length, 'each one waits in a trace of its own');
  const parent = anObservation({ traceId: 't', id: 'parent' });
  await traces.write(batchWith([parent], { format: 'runs' }));
  const { rows } = await postgres.query(
    'SELECT key, observations, stale_changes > 0 AS is_stale FROM traces',
  );
  t.same(rows, [{ key: Buffer.from('t'), observations: children.length + 1, is_stale: true }]);
  t.equal(await count('trace_keys'), 1);
  for await (const _ of summarizeStale(postgres, { leftOut() {} }, { publish() {} }));
  t.match(await traces.getTrace(P, 't'), { id: 't', observationCount: children.length + 1 });
});

t.test('a summary is not saved after writes that made another one in between', async (t) => {
  const { traces, postgres } = await traceDatabase(t, await migratedDatabase(server));
  const upTo = (from: number, to: number) =>
    batchWith(Array.from({ length: to - from }, (_, i) => anObservation({ id: `${from + i}` })));
  await traces.write(upTo(0, 400));
  // As a migration leaves it that needs new summaries.
  await postgres.query('UPDATE traces SET stale_changes = 1');
  const between = async () => {
    await traces.write(upTo(400, 410));
    await traces.write(upTo(410, 600));
  };
  const late: Pick<typeof postgres, 'query' | 'transaction'> = {
    query: (text, values) => postgres.query(text, values),
    async transaction(work) {
      await between();
      return postgres.transaction(work);
    },
  };
  const ends = { leftOut() {} };
  for await (const _ of summarizeStale(late, ends, { publish() {} })) break;
  const stale = 'SELECT 1 FROM traces WHERE stale_changes > 0';
  t.equal((await postgres.query(stale)).rows.length, 1, 'the trace still waits for its summary');
  for await (const _ of summarizeStale(postgres, ends, { publish() {} }));
  t.equal((await postgres.query(stale)).rows.length, 0);
});

t.test('a trace waits for a summary again after a write of the version before', async (t) => {
  const { traces, postgres } = await traceDatabase(t, await migratedDatabase(server));
  const large = Array.from({ length: MAX_SUMMARIZED + 1 }, (_, i) => anObservation({ id: `${i}` }));
  await traces.write(batchWith(large));
  const round = async () => {
    for await (const _ of summarizeStale(postgres, { leftOut() {} }, { publish() {} }));
    const stale = 'SELECT 1 FROM traces WHERE stale_changes > 0';
    return (await postgres.query(stale)).rows.length;
  };
  t.equal(await round(), 0);
  await postgres.query('UPDATE traces SET stale_changes = stale_changes + 1');
  const { rows } = await postgres.query('SELECT 1 FROM traces WHERE stale_changes > 0');
  t.equal(rows.length, 1);
  t.equal(await round(), 0);
});

t.test('returns and finds text that Postgres cannot store as it was sent', async (t) => {
  const { traces } = await traceDatabase(t, await migratedDatabase(server));
  const hostile = [
    'nul \0 nul',
    'lone \ud800 high',
    'lone \udfff low',
    '\u0001\u0002 \u0001\u0003 \u0001\u0010\u0010\u0010\u0010',
    '{"a","b"} NULL \\x41 \\ " \' \n\r\t',
    'é 😀 ﷽',
  ];
  for (const [i, text] of hostile.entries()) {
    const sent = anObservation({
      ...{ traceId: `t${i}`, id: 'o', name: text, model: text, sessionId: text, userId: text },
      ...{ error: { message: text, type: text, stacktrace: null } },
      customFields: { [text]: text, ['__proto__']: text },
      ...{ usage: { input_tokens: 1, __proto__x: 2 }, external: { ['__proto__']: text } },
      version: '18446744073709551615',
    });
    await traces.write(batchWith([sent]));
    const found = await traces.getObservation(P, 'o', `t${i}`);
    const { index: _, operation: __, payloadMask: ___, ...fields } = sent;
    t.match(found, { ...fields, customFields: {}, external: {} });
    t.same(Object.entries(found?.customFields ?? {}), Object.entries(sent.customFields ?? {}));
    t.same(Object.entries(found?.external ?? {}), Object.entries(sent.external ?? {}));
    t.equal((await traces.getTrace(P, `t${i}`))?.name, text);
    for (const query of [nameQuery(text), textQuery(text), textQuery(text.slice(1))]) {
      const { items } = await traces.listTraces(P, { limit: 9, query });
      t.same(
        items.map(({ id }) => id),
        [`t${i}`],
        JSON.stringify(query),
      );
    }
  }
  const none = await traces.listTraces(P, { limit: 9, query: textQuery('É') });
  t.same(none.items, [], 'only the case of ASCII letters is ignored, as in SQLite');
});

t.test('keeps and finds ids of any characters', async (t) => {
  const { traces } = await traceDatabase(t, await migratedDatabase(server));
  const alike = [
    'NULL',
    'null',
    '',
    '-',
    'a.b:c_d-e',
    '{}',
    ',',
    '"',
    '\\',
    '\\x61',
    'a',
    '\\141',
    ' a',
    'a ',
  ];
  await fc.assert(
    fc.asyncProperty(
      fc.uniqueArray(fc.oneof(fc.constantFrom(...alike), fc.string({ unit: 'binary' })), {
        ...{ minLength: 1, maxLength: 40 },
      }),
      fc.uuid(),
      async (ids, run) => {
        const made = ids.map((id) => anObservation({ id, traceId: `${id}/${run}`, name: id }));
        await traces.write(batchWith(made));
        // The second write finds the rows by their keys and merges.
        await traces.write(batchWith(made.map((each) => ({ ...each, model: 'm' }))));
        for (const { id, traceId } of made) {
          const { items } = await traces.listObservations(P, traceId ?? '', { limit: 2 });
          t.match(items, [{ id, name: id, model: 'm' }]);
          t.equal(items.length, 1);
        }
      },
    ),
    { numRuns: 25, examples: [[alike, '00000000-0000-0000-0000-000000000000']] },
  );
});

t.test('keeps custom fields of megabytes and deep text', async (t) => {
  const { traces } = await traceDatabase(t, await migratedDatabase(server));
  const deep = `${'{"a":'.repeat(512)}1${'}'.repeat(512)}`;
  const customFields = { deep, wide: 'x\0"'.repeat(300_000) };
  await traces.write(batchWith([anObservation({ customFields })]));
  t.same((await traces.getObservation(P, 'observation-1'))?.customFields, customFields);
});

t.test('hides an expired trace from readers before it is removed', async (t) => {
  const { traces, since } = await traceDatabase(t, await migratedDatabase(server));
  const old = batchWith([anObservation()], { receivedAt: T0 });
  const young = batchWith([anObservation({ traceId: 'young' })], { receivedAt: T0 + 5 });
  for (const batch of [old, young]) await traces.write(batch);
  since.set(P, T0 + 1);
  t.equal(await traces.getTrace(P, 'trace-1'), undefined);
  t.equal(await traces.getObservation(P, 'observation-1', 'trace-1'), undefined);
  t.equal((await traces.getObservation(P, 'observation-1'))?.traceId, 'young');
  t.same((await traces.listObservations(P, 'trace-1', { limit: 9 })).items, []);
  t.equal((await traces.listTraces(P, { limit: 9 })).items.length, 1);
  const kept = await traces.getBatches(P, [old.source.id, young.source.id]);
  t.same(
    kept.map(({ id }) => id),
    [young.source.id],
  );
});

t.test('keeps nothing of a failed transaction, and retries after a deadlock', async (t) => {
  const { traces, database, postgres, count } = await traceDatabase(
    t,
    await migratedDatabase(server),
  );
  await postgres.query(`
    CREATE SEQUENCE tries;
    CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      IF nextval('tries') < 3 THEN RAISE EXCEPTION 'x' USING ERRCODE = '40P01'; END IF;
      IF NEW.name = 'poison' THEN RAISE EXCEPTION 'x' USING ERRCODE = '23514'; END IF;
      RETURN NEW;
    END $$;
    CREATE TRIGGER fail BEFORE INSERT ON observations FOR EACH ROW EXECUTE FUNCTION fail()`);
  await traces.write(batchWith([anObservation()]));
  t.equal(await count('observations'), 1);
  const write = traces.write(batchWith([anObservation({ id: 'p', traceId: 'p', name: 'poison' })]));
  await t.rejects(write, { name: 'PermanentError', code: 'storage_refused' });
  t.same([await count('traces'), await count('batches')], [1, 1]);
  const away = { ...database, transaction: () => Promise.reject(new RetryableError('x', 'x')) };
  const other = postgresTraces(away, FOREVER, GROUPS);
  await t.rejects(other.write(batchWith([anObservation()])), { name: 'RetryableError', code: 'x' });
});

t.test('isolates rejected batches from the others of their group', async (t) => {
  const { traces, postgres, deleted, count } = await traceDatabase(
    t,
    await migratedDatabase(server),
  );
  await postgres.query("ALTER TABLE observations ADD CHECK (name <> 'poison')");
  deleted.add('proj_gone');
  const batchOf = (id: string, projectId: string, name = 'fine') =>
    batchWith([anObservation({ id, traceId: 'shared', name })], { tenant: aTenant({ projectId }) });
  const outcomes = await Promise.allSettled(
    [
      batchOf('0', P),
      batchOf('1', P),
      batchOf('2', P, 'poison'),
      batchOf('3', 'proj_gone'),
      batchOf('4', 'proj_other'),
      batchOf('5', P),
      batchOf('6', 'proj_other'),
    ].map((batch) => traces.write(batch)),
  );
  t.match(
    outcomes.map((outcome) => (outcome.status === 'rejected' ? outcome.reason.code : 'stored')),
    ['stored', 'stored', 'storage_refused', 'project_deleted', 'stored', 'stored', 'stored'],
  );
  t.equal((await traces.getTrace(P, 'shared'))?.observationCount, 3);
  t.equal((await traces.getTrace('proj_other', 'shared'))?.observationCount, 2);
  t.equal(await count('batches'), 5);
});

t.test('merges batches of one transaction like batches of several', async (t) => {
  const { traces, postgres } = await traceDatabase(t, await migratedDatabase(server));
  const transactions = async (): Promise<number> => {
    const { rows } = await postgres.query('SELECT pg_current_xact_id()::text AS id');
    return Number(rows[0]?.id);
  };
  const before = await transactions();
  await Promise.all(
    Array.from({ length: 32 }, (_, i) =>
      traces.write(
        batchWith([
          anObservation({ id: 'same', name: `name ${i}`, version: String(i) }),
          anObservation({ id: `own ${i}`, usage: { input_tokens: i } }),
        ]),
      ),
    ),
  );
  t.ok((await transactions()) - before < 32, 'fewer transactions than batches');
  t.equal((await traces.getObservation(P, 'same', 'trace-1'))?.name, 'name 31');
  const sum = (31 * 32) / 2;
  t.match(await traces.getTrace(P, 'trace-1'), {
    observationCount: 33,
    usage: { input_tokens: sum },
  });
});

/** Events of a family of runs under one root: creations with and without the trace, and updates. */
function someEvents(): fc.Arbitrary<Observation[]> {
  const maybe = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: null });
  const event = fc
    .record({
      run: fc.integer({ min: 0, max: 4 }),
      how: fc.constantFrom('with trace', 'with parent', 'update'),
      version: fc.constantFrom('0', '1', '18446744073709551615'),
      operation: fc.constantFrom('start' as const, 'finish' as const),
      name: maybe(fc.constantFrom('n', 'm')),
      shift: fc.integer({ min: 0, max: 9 }),
      usage: maybe(fc.record({ input_tokens: fc.integer({ min: 0, max: 9 }) })),
      payloadMask: fc.integer({ min: 0, max: 31 }),
    })
    .map(({ run, how, shift, ...rest }): Observation => {
      const id = `run-${run}`;
      const parentId = run === 0 ? null : `run-${(run - 1) >> 1}`;
      const startTime = { ms: T0 + run * 10 + shift, ns: run };
      const known = { ...rest, id, startTime, endTime: null };
      if (how === 'update') return anObservation({ ...known, traceId: null });
      const namesTrace = how === 'with trace' || run === 0;
      return anObservation({ ...known, parentId, traceId: namesTrace ? 'T' : null });
    });
  return fc.array(event, { minLength: 1, maxLength: 4 });
}

async function everything(traces: TraceStore, projectId: string): Promise<unknown> {
  const { items } = await traces.listTraces(projectId, { limit: 99 });
  const all = await Promise.all(
    items.map(async (trace) => {
      const page = await traces.listObservations(projectId, trace.id, { limit: 99 });
      return { trace, items: page.items.toSorted((a, b) => (a.id < b.id ? -1 : 1)) };
    }),
  );
  return all.toSorted((a, b) => (a.trace.id < b.trace.id ? -1 : 1));
}

t.test('a page of a trace is read in the order of an index, and sorts nothing', async (t) => {
  const { traces, postgres } = await traceDatabase(t, await migratedDatabase(server));
  for (let trace = 1; trace <= 10; trace++) {
    const observations = Array.from({ length: 1000 }, (_, i) => {
      const startTime = { ms: T0 + trace * 1000 + i, ns: i };
      return anObservation({ traceId: `trace-${trace % 2}`, id: `o${trace}-${i}`, startTime });
    });
    await traces.write(batchWith(observations));
  }
  await postgres.query('ANALYZE observations, traces');
  for (const page of [OBSERVATION_PAGE, ...PACKED_PAGES]) {
    const { rows } = await postgres.query(`EXPLAIN ${page}`, [
      ...[P, 0, Buffer.from('trace-1'), T0 + 3500, 5, 3, 200],
    ]);
    const plan = rows.map((row) => String(row['QUERY PLAN'])).join('\n');
    t.match(plan, 'observations_in_order');
    t.notMatch(plan, /Sort {2}\(|Seq Scan on observations/);
  }
});
