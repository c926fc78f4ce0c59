import fc from 'fast-check';
import type { Test } from 'tap';
import type { ObservationBatch, SealedBatch } from '../../src/model/batch.ts';
import type { Observation } from '../../src/model/observation.ts';
import { SEARCHED_TRACES } from '../../src/store/rows/trace-page.ts';
import type {
  EventRef,
  ObservationWithEvents,
  Store,
  StoredObservation,
} from '../../src/store/store.ts';
import { hashToken, hasValidChecksum } from '../../src/tenancy/token.ts';
import { anObservation, aTenant, nativeBatch, otlpBatch, rawBatch } from '../helper/batches.ts';
import type { FakeClock } from '../helper/clock.ts';
import { aQuery } from '../helper/query.ts';
import type { RecordingMetrics } from '../helper/settings.ts';
import type { TermTables } from '../helper/term-tables.ts';
import { attachments } from './attachments.ts';
import { backlog } from './backlog.ts';
import { changes } from './changes.ts';
import { costs } from './costs.ts';
import { erasures } from './erasures.ts';
import { exports } from './exports.ts';
import { groups } from './groups.ts';
import { postings } from './postings.ts';
import { queries } from './queries.ts';
import { ranks } from './ranks.ts';
import { rollupRules } from './rollups.ts';
import { scores } from './scores.ts';
import { states } from './states.ts';
import { summaries } from './summaries.ts';
import { observedValuesRules } from './values.ts';

/** A store under test: opened, closed, broken off, and opened again. */
export type StorePlace = {
  readonly clock: FakeClock;
  readonly metrics: RecordingMetrics;
  open(): Promise<OpenStorePlace>;
  /** Reads the tables of postings as they are in the file or database. */
  termTables(): Promise<TermTables>;
  /** Removes the postings, as if an earlier version had written the traces. */
  forgetTerms(): Promise<void>;
};
type OpenStorePlace = {
  readonly store: Store;
  close(): Promise<void>;
  crash(): Promise<void>;
  /** Does all background work now. */
  finish(): Promise<void>;
};

const P = aTenant().projectId;
const T0 = Date.UTC(2026, 0, 15, 12);

/** The rules for every store, in parts: a test file runs one. Its queues have rules of their own in test/contract/queue.ts. */
const PARTS = {
  writes: {
    'projects and keys': projectsAndKeys,
    observations,
    merging,
    summaries,
    states,
    postings,
    backlog,
    changes,
    costs,
    erasures,
  },
  searches: { listings, queries, 'sorted lists': ranks },
  sums: {
    exports,
    'values of observations': observedValuesRules,
    rollups: rollupRules,
    scores,
    attachments,
    'sessions and users': groups,
  },
} satisfies Record<string, Record<string, (t: Test, open: Open) => void>>;

export function storeContract(
  t: Test,
  part: keyof typeof PARTS,
  place: (t: Test) => Promise<StorePlace>,
): void {
  for (const [name, rules] of Object.entries(PARTS[part])) {
    t.test(name, (t) => {
      rules(t, opening(place));
      t.end();
    });
  }
}

type Open = (t: Test) => Promise<{
  clock: FakeClock;
  store: Store;
  finish(): Promise<void>;
  reopen(how?: 'close' | 'crash'): Promise<Store>;
  metrics: RecordingMetrics;
  termTables(): Promise<TermTables>;
  forgetTerms(): Promise<void>;
}>;

function opening(place: (t: Test) => Promise<StorePlace>): Open {
  return async (t) => {
    const at = await place(t);
    let opened = await at.open();
    t.teardown(() => opened.close());
    const reopen = async (how: 'close' | 'crash' = 'crash'): Promise<Store> => {
      await opened[how]();
      opened = await at.open();
      return opened.store;
    };
    const finish = (): Promise<void> => opened.finish();
    const { clock, metrics, termTables, forgetTerms } = at;
    return { clock, metrics, termTables, forgetTerms, store: opened.store, finish, reopen };
  };
}

function projectsAndKeys(t: Test, open: Open): void {
  t.test('creates, finds and lists projects', async (t) => {
    const { store, clock, reopen } = await open(t);
    const before = await store.projects.list();
    const project = await store.projects.create('Zürich');
    t.match(project, { id: /^proj_\w+$/, name: 'Zürich', createdAt: clock.now() });
    const after = await reopen();
    t.same(await after.projects.get(project.id), project);
    t.same(await after.projects.list(), [...before, project]);
    t.equal(await after.projects.get('proj_none'), undefined);
    t.equal(await after.projects.organizationOf(project.id), project.organizationId);
    t.equal(await after.projects.organizationOf('proj_none'), undefined);
  });

  t.test('accepts names of 1 to 200 characters', async (t) => {
    const { store } = await open(t);
    for (const name of ['', '   ', 'x'.repeat(201), 'lone \ud800']) {
      await t.rejects(store.projects.create(name), { name: 'StoreError', code: 'invalid_name' });
    }
    await store.projects.create('😀'.repeat(200));
  });

  t.test('returns a token once and finds its key by the hash', async (t) => {
    const { store, clock, reopen } = await open(t);
    const project = await store.projects.create('p');
    const changes: (string | undefined)[] = [];
    store.keys.onChange((keyId) => changes.push(keyId));
    const { key, token } = await store.keys.create({ projectId: project.id, name: 'ci' });
    t.match(key, {
      id: /^key_\w+$/,
      projectId: project.id,
      organizationId: project.organizationId,
      name: 'ci',
      permissions: ['ingest:write', 'traces:read'],
      createdAt: clock.now(),
      lastUsedAt: null,
      revokedAt: null,
    });
    t.ok(hasValidChecksum(token));
    t.ok(token.startsWith(key.prefix) && key.prefix.length < 16, 'the prefix tells little');
    t.same(changes, [key.id]);
    const after = await reopen();
    t.same(await after.keys.findByHash(hashToken(token)), key);
    t.equal(await after.keys.findByHash(hashToken(`${token}x`)), undefined);
    const hashes = Buffer.from(await after.keys.activeHashes());
    t.ok(hashes.includes(hashToken(token)));
    const [known, unknown] = [hashToken(token), hashToken(`${token}x`)];
    t.strictSame(Buffer.from(await after.keys.activeHashes([unknown, known])), known);
    t.equal((await after.keys.activeHashes([unknown])).length, 0);
    t.equal((await after.keys.activeHashes([])).length, 0);
    for (let i = 0; i < 5; i++) await after.keys.create({ projectId: project.id });
    const all = Buffer.from(await after.keys.activeHashes());
    t.equal(all.length, hashes.length + 5 * 32);
    for (let at = 32; at < all.length; at += 32) {
      t.equal(all.compare(all, at - 32, at, at, at + 32), 1, 'sorted');
    }
    t.equal((await after.keys.list(project.id)).length, 6);
  });

  t.test('stores the permissions of a key, at least one', async (t) => {
    const { store } = await open(t);
    const { id: projectId } = await store.projects.create('p');
    const { key } = await store.keys.create({ projectId, permissions: ['traces:read'] });
    t.same(key.permissions, ['traces:read']);
    const none = store.keys.create({ projectId, permissions: [] });
    await t.rejects(none, { name: 'StoreError', code: 'invalid_permissions' });
    const unknown = store.keys.create({ projectId: 'proj_none' });
    await t.rejects(unknown, { name: 'StoreError', code: 'unknown_project' });
  });

  t.test('keeps a revoked key in the list, and revokes idempotently', async (t) => {
    const { store, clock, reopen } = await open(t);
    const { id: projectId } = await store.projects.create('p');
    const { key, token } = await store.keys.create({ projectId });
    const changes: (string | undefined)[] = [];
    const stop = store.keys.onChange((keyId) => changes.push(keyId));
    const revokedAt = clock.now();
    const revoked = await store.keys.revoke(key.id);
    t.same(revoked, { ...key, revokedAt });
    t.same(changes, [key.id]);
    clock.advance(1000);
    t.same(await store.keys.revoke(key.id), revoked);
    stop();
    await t.rejects(store.keys.revoke('key_none'), { name: 'StoreError', code: 'unknown_key' });
    const after = await reopen();
    t.same(await after.keys.findByHash(hashToken(token)), revoked);
    t.notOk(Buffer.from(await after.keys.activeHashes()).includes(hashToken(token)));
    t.equal((await after.keys.activeHashes([hashToken(token)])).length, 0);
    t.same(await after.keys.list(projectId), [revoked]);
  });

  t.test('lists keys newest first, of one project or all', async (t) => {
    const { store, clock } = await open(t);
    const made: string[] = [];
    for (const name of ['one', 'two']) {
      const { id: projectId } = await store.projects.create(name);
      for (let i = 0; i < 2; i++) {
        clock.advance(10);
        made.unshift((await store.keys.create({ projectId, name })).key.id);
      }
    }
    const all = await store.keys.list();
    t.same(
      all.map(({ id }) => id).filter((id) => made.includes(id)),
      made,
    );
    const [first] = all;
    t.equal((await store.keys.list(first?.projectId)).length, 2);
  });

  t.test('stores the last use within ten seconds, then at most once a minute', async (t) => {
    const { store, clock, reopen } = await open(t);
    const { id: projectId } = await store.projects.create('p');
    const { key } = await store.keys.create({ projectId });
    const lastUse = async () => (await store.keys.list(projectId))[0]?.lastUsedAt;
    const used = clock.now();
    store.keys.touch(key.id, used);
    clock.advance(10_000);
    while ((await lastUse()) === null) await new Promise(setImmediate);
    t.equal(await lastUse(), used);
    store.keys.touch(key.id, used + 11_000);
    clock.advance(10_000);
    await store.projects.create('something else is written');
    t.equal(await lastUse(), used, 'within the minute it is not written again');
    const [after] = await (await reopen('close')).keys.list(projectId);
    t.equal(after?.lastUsedAt, used + 11_000, 'a stop writes what was noted');
  });

  t.test('listings contain neither a token nor its hash', async (t) => {
    const { store } = await open(t);
    const { id: projectId } = await store.projects.create('p');
    const { token } = await store.keys.create({ projectId });
    const shown = JSON.stringify([await store.keys.list(), await store.projects.list()]);
    t.notMatch(shown, token.slice(12));
    t.notMatch(shown, hashToken(token).toString('hex'));
  });
}

/** A batch of observations; one raw batch each, later ones with later ids. */
function write(store: Store, list: readonly Observation[], more: Partial<SealedBatch> = {}) {
  return store.traces.write(batchWith(list, more));
}

function batchWith(
  list: readonly Observation[],
  more: Partial<SealedBatch> = {},
): ObservationBatch {
  const source = nativeBatch(list.length, more);
  const observations = list.map((observation, index) => ({ ...observation, index }));
  return { kind: 'observations', source, observations };
}

function observations(t: Test, open: Open): void {
  t.test('reads every field of an observation back', async (t) => {
    const { store, reopen } = await open(t);
    const observation = anObservation({
      parentId: 'parent',
      version: '18446744073709551615',
      startTime: { ms: -62_167_219_200_000, ns: 999_999 },
      endTime: { ms: 253_402_300_799_999, ns: 1 },
      model: 'm',
      usage: { input_tokens: 1, output_tokens: 2 },
      sessionId: 's',
      userId: 'u',
      error: { message: 'no', type: null, stacktrace: 'at x' },
      customFields: { team: 'a', ['__proto__']: 'b', 'q"uote': '\\' },
      external: { run_type: 'prompt' },
    });
    const batch = batchWith([observation]);
    await store.traces.write(batch);
    const after = await reopen();
    const found = await after.traces.getObservation(P, 'observation-1', 'trace-1');
    const ref = { batchId: batch.source.id, position: 0 };
    const { index: _, operation: __, payloadMask: ___, ...fields } = observation;
    t.same(found, {
      ...fields,
      projectId: P,
      state: 'finished',
      source: 'native',
      payload: { inputs: ref, outputs: ref, metadata: ref },
      events: [ref],
      createdAt: batch.source.receivedAt,
      updatedAt: batch.source.receivedAt,
    });
  });

  t.test('stores a large new batch with all its rows, once', async (t) => {
    const { store, reopen } = await open(t);
    const text = 'x'.repeat(5500);
    const events = Array.from({ length: 450 }, (_, i) => ({ id: `o${i}`, inputs: { i, text } }));
    const source = nativeBatch(events);
    const all = events.map(({ id }, index) => anObservation({ id, index, payloadMask: 1 }));
    // A process died when some of the rows were in.
    await store.traces.write({ kind: 'observations', source, observations: all.slice(0, 230) });
    const after = await reopen();
    const before = await after.traces.getObservation(P, 'o7', 'trace-1');
    await after.traces.write({ kind: 'observations', source, observations: all });
    t.match(await after.traces.getTrace(P, 'trace-1'), { observationCount: 450 });
    t.same(await after.traces.getObservation(P, 'o7', 'trace-1'), before);
    const [kept] = await after.traces.getBatches(P, [source.id]);
    t.ok(kept?.body.equals(source.body), 'more than two megabytes, byte by byte');
    const ref = { batchId: source.id, position: 449 };
    t.match(await after.traces.getObservation(P, 'o449'), { payload: { inputs: ref } });
    t.same(await after.usage.verify(), []);
  });

  t.test('reads absent fields as null', async (t) => {
    const { store } = await open(t);
    const none = { name: null, kind: null, status: null, startTime: null, endTime: null };
    await write(store, [
      anObservation({ ...none, ended: false, customFields: null, payloadMask: 0 }),
    ]);
    const found = await store.traces.getObservation(P, 'observation-1');
    t.match(found, { ...none, ended: false, customFields: null, error: null, external: null });
    t.same(found?.payload, {});
    t.equal(found?.events.length, 1, 'the event that has no payload');
  });

  t.test('keeps ids of any form distinct', async (t) => {
    const { store } = await open(t);
    const long = 'é'.repeat(2048);
    const otlp = { traceId: 'a'.repeat(32), id: `${'a'.repeat(32)}:${'b'.repeat(16)}` };
    const list: Pick<Observation, 'id' | 'traceId' | 'parentId'>[] = [
      { ...otlp, parentId: `${'a'.repeat(32)}:${'c'.repeat(16)}` },
      { id: ':starts-with-a-colon', traceId: ':trace', parentId: ':parent' },
      { id: `t:${'d'.repeat(16)}`, traceId: 't', parentId: `t:${'e'.repeat(16)}` },
      { id: `:${'d'.repeat(16)}`, traceId: 't', parentId: `:${'e'.repeat(16)}` },
      { id: long, traceId: long, parentId: `${long}x` },
      { id: `${long}y`, traceId: long, parentId: null },
      { id: "'; DROP TABLE observations; --", traceId: '__proto__', parentId: '%' },
      { id: 'x'.repeat(64), traceId: 'x'.repeat(65), parentId: 'x'.repeat(66) },
      { id: '😀'.repeat(40), traceId: ' ', parentId: '\n' },
    ];
    await write(
      store,
      list.map((ids) => anObservation(ids)),
    );
    for (const { id, traceId, parentId } of list) {
      const found = await store.traces.getObservation(P, id, traceId ?? '');
      t.same([found?.id, found?.traceId, found?.parentId], [id, traceId, parentId]);
      const anywhere = await store.traces.getObservation(P, id);
      t.equal(anywhere?.traceId, traceId, `${id.slice(0, 20)} is found without its trace`);
      const page = await store.traces.listObservations(P, traceId ?? '', { limit: 10 });
      t.ok(page.items.some((item) => item.id === id));
      t.equal((await store.traces.getTrace(P, traceId ?? ''))?.id, traceId);
    }
  });

  t.test('reads external ids of spans back as sent', async (t) => {
    const { store } = await open(t);
    const trace = 'a'.repeat(32);
    const spans = [
      {
        id: `${trace}:${'1'.repeat(16)}`,
        parentId: null,
        external: { trace_id: trace, span_id: '1'.repeat(16) },
      },
      {
        id: `${trace}:${'2'.repeat(16)}`,
        parentId: `${trace}:${'1'.repeat(16)}`,
        external: { trace_id: trace, span_id: '2'.repeat(16), parent_span_id: '1'.repeat(16) },
      },
      {
        id: `${trace}:${'3'.repeat(16)}`,
        parentId: null,
        external: { trace_id: 'A'.repeat(32), span_id: '3'.repeat(16) },
      },
    ];
    const source = otlpBatch(3);
    const list = spans.map((span, index) => anObservation({ ...span, traceId: trace, index }));
    await store.traces.write({ kind: 'observations', source, observations: list });
    const { items } = await store.traces.listObservations(P, trace, { limit: 10 });
    t.same(
      items.map(({ external }) => external),
      spans.map(({ external }) => external),
    );
    t.same(
      items.map(({ source: from }) => from),
      ['otlp', 'otlp', 'otlp'],
    );
  });

  t.test('isolates projects', async (t) => {
    const { store } = await open(t);
    const other = aTenant({ projectId: 'proj_other' });
    await write(store, [anObservation({ name: 'mine' })]);
    await write(store, [anObservation({ name: 'theirs' })], { tenant: other });
    const theirs = await store.traces.getObservation('proj_other', 'observation-1', 'trace-1');
    t.equal(theirs?.name, 'theirs');
    t.equal((await store.traces.getObservation(P, 'observation-1'))?.name, 'mine');
    t.equal((await store.traces.listTraces(P, { limit: 9 })).items.length, 1);
    const ref = theirs?.payload.inputs?.batchId ?? '';
    t.same(await store.traces.getBatches(P, [ref]), []);
    t.equal((await store.traces.getBatches('proj_other', [ref])).length, 1);
    t.same([...(await store.traces.batchStamps(P, [ref, 'none']))], []);
    const stamps = await store.traces.batchStamps('proj_other', [ref, 'none']);
    t.same([...stamps.keys()], [ref]);
    t.same(await store.traces.batchStamps('proj_other', [ref]), stamps, 'the body is the same');
    t.equal(await store.traces.getTrace('proj_none', 'trace-1'), undefined);
  });

  t.test('stores the raw batch with its observations, once', async (t) => {
    const { store } = await open(t);
    const body = Buffer.from('{"events":[{},{}]}');
    const source = rawBatch('native', body, 3, {
      positions: [0, 2],
      rejections: [{ index: 1, code: 'invalid_event', reason: 'events[1]' }],
    });
    const list = [anObservation({ index: 0 }), anObservation({ id: 'second', index: 2 })];
    const batch: ObservationBatch = { kind: 'observations', source, observations: list };
    await store.traces.write(batch);
    await store.traces.write(batch);
    const [kept, ...more] = await store.traces.getBatches(P, [source.id, 'none']);
    t.same(
      [kept?.body, kept?.positions, kept?.rejections, more],
      [body, [0, 2], source.rejections, []],
    );
    const second = await store.traces.getObservation(P, 'second', 'trace-1');
    t.same(second?.payload.inputs, { batchId: source.id, position: 1 }, 'positions are the body’s');
  });

  t.test('does not store a batch again that a queue of the store holds', async (t) => {
    const { store } = await open(t);
    const queue = await store.openQueue({ name: 'q', branches: ['a'], maxBytes: 1e9 });
    const source = nativeBatch(1);
    await queue.append(source);
    await store.traces.write({ kind: 'observations', source, observations: [anObservation()] });
    await queue.ack('a', await queue.lease('a', 9, 1e9));
    const [kept] = await store.traces.getBatches(P, [source.id]);
    t.same(kept?.body, source.body, 'and stays when the queue is done with it');
  });

  t.test('finds the newest observation if several traces have the id', async (t) => {
    const { store } = await open(t);
    await write(store, [anObservation({ traceId: 'old' })], { receivedAt: T0 });
    await write(store, [anObservation({ traceId: 'new' })], { receivedAt: T0 + 1 });
    t.equal((await store.traces.getObservation(P, 'observation-1'))?.traceId, 'new');
    t.equal(await store.traces.getObservation(P, 'observation-1', 'none'), undefined);
    t.equal(await store.traces.getObservation(P, 'none'), undefined);
  });
}

const START: Partial<Observation> = {
  operation: 'start',
  status: 'running',
  endTime: null,
  ended: false,
};

function merging(t: Test, open: Open): void {
  const read = (store: Store) => store.traces.getObservation(P, 'observation-1', 'trace-1');

  t.test('merges a finish into its start, and prefers the finish', async (t) => {
    for (const order of ['start first', 'finish first']) {
      const { store } = await open(t);
      const start = batchWith([
        anObservation({ ...START, name: 'begun', sessionId: 's', payloadMask: 0b00001 }),
      ]);
      const finish = batchWith([
        anObservation({
          name: null,
          startTime: null,
          payloadMask: 0b00010,
          usage: { input_tokens: 3 },
        }),
      ]);
      const batches = order === 'start first' ? [start, finish] : [finish, start];
      for (const batch of batches) await store.traces.write(batch);
      t.match(
        await read(store),
        {
          name: 'begun',
          sessionId: 's',
          status: 'success',
          ended: true,
          startTime: anObservation().startTime,
          endTime: anObservation().endTime,
          usage: { input_tokens: 3 },
          payload: {
            inputs: { batchId: start.source.id, position: 0 },
            outputs: { batchId: finish.source.id, position: 0 },
          },
        },
        order,
      );
    }
  });

  t.test('merges each detail of its own', async (t) => {
    const { store } = await open(t);
    const cost = { input: null, output: 2, total: 3, source: 'sent' } as const;
    const start = { tags: ['a', 'b'], environment: 'staging', provider: 'x' };
    const finish = { environment: 'production', ttftMs: 1.5, cost };
    await write(store, [anObservation({ ...START, details: start })]);
    await write(store, [anObservation({ details: finish })]);
    await write(store, [anObservation({ details: null })]);
    t.same((await read(store))?.details, { ...start, ...finish });
  });

  t.test('prefers the higher version, for any operation', async (t) => {
    const { store } = await open(t);
    const versions = [
      '9007199254740993',
      '18446744073709551615',
      '18446744073709551614',
      '9',
      '10',
    ];
    for (const version of versions) {
      const operation = version.startsWith('18446744073709551615') ? 'start' : 'finish';
      await write(store, [anObservation({ version, name: version, operation })]);
    }
    t.match(await read(store), { version: '18446744073709551615', name: '18446744073709551615' });
  });

  t.test('ignores a repeated event', async (t) => {
    const { store } = await open(t);
    const batches = [
      batchWith([anObservation({ ...START })]),
      batchWith([anObservation({ usage: { input_tokens: 3 } }), anObservation({ name: 'again' })]),
    ];
    for (const batch of batches) await store.traces.write(batch);
    const before = [await read(store), await store.traces.getTrace(P, 'trace-1')];
    for (const batch of [...batches, ...batches]) await store.traces.write(batch);
    t.same([await read(store), await store.traces.getTrace(P, 'trace-1')], before);
  });

  t.test('gives the same row and trace for every order of up to five events', async (t) => {
    await fc.assert(
      fc.asyncProperty(fc.array(anEvent(), { minLength: 2, maxLength: 5 }), async (events) => {
        const { store } = await open(t);
        const batches = events.map((event, i) => batchWith([event], { receivedAt: T0 + i }));
        const rows: unknown[] = [];
        for (const [i, order] of permutations(batches).entries()) {
          // Every order has a project of its own, and raw batches that sort as the first order's do.
          const tenant = aTenant({ projectId: `proj_${i}` });
          for (const batch of order) {
            const place = batches.indexOf(batch);
            const id = `${String(i).padStart(6, '0')}${String(place).padStart(20, '0')}`;
            await store.traces.write({ ...batch, source: { ...batch.source, id, tenant } });
          }
          const row = await store.traces.getObservation(
            tenant.projectId,
            'observation-1',
            'trace-1',
          );
          const trace = await store.traces.getTrace(tenant.projectId, 'trace-1');
          rows.push([comparable(row), trace]);
        }
        for (const row of rows) if (!t.same(row, rows[0])) throw new Error('the order shows');
      }),
      { numRuns: 6, endOnFailure: true },
    );
  });

  t.test('puts an update of a run into its trace, before or after the creation', async (t) => {
    for (const order of ['creation first', 'update first']) {
      const { store } = await open(t);
      const asRun = { format: 'runs' as const };
      const creation = batchWith([anObservation({ ...START, id: 'run', traceId: 'T' })], asRun);
      const update = batchWith(
        [anObservation({ id: 'run', traceId: null, name: 'patched' })],
        asRun,
      );
      const batches = order === 'creation first' ? [creation, update] : [update, creation];
      for (const batch of batches) await store.traces.write(batch);
      const found = await store.traces.getObservation(P, 'run');
      t.match(found, { traceId: 'T', name: 'patched', status: 'success', source: 'runs' }, order);
      t.equal((await store.traces.getTrace(P, 'T'))?.observationCount, 1);
      for (const batch of batches) await store.traces.write(batch);
      t.same(await store.traces.getObservation(P, 'run'), found, 'repeated, it changes nothing');
    }
  });

  t.test(
    'a run that names only its parent ends up in its parent’s trace, in any order',
    async (t) => {
      const run = (id: string, parentId: string | null, traceId: string | null = null) =>
        anObservation({ ...START, id, parentId, traceId });
      const family = [
        run('root', null, 'T'),
        run('child', 'root'),
        run('grandchild', 'child'),
        run('great-grandchild', 'grandchild'),
        anObservation({ id: 'child', traceId: null, name: 'patched' }),
      ];
      const orders = [
        [0, 1, 2, 3, 4],
        [3, 2, 1, 0, 4],
        [4, 2, 3, 0, 1],
        [2, 4, 1, 3, 0],
        [1, 3, 4, 2, 0],
      ];
      const { store } = await open(t);
      for (const order of orders) {
        for (const together of [true, false]) {
          const project = `proj_${order.join('')}${together}`;
          const tenant = aTenant({ projectId: project });
          const events = order.map((i) => family[i] ?? anObservation());
          const writes = together ? [events] : events.map((one) => [one]);
          for (const some of writes) {
            const own = some.map((one, index) => ({ ...one, index }));
            await store.traces.write(batchWith(own, { format: 'runs', tenant }));
          }
          const { items } = await store.traces.listTraces(project, { limit: 10 });
          const seen = items.map(({ id, observationCount }) => [id, observationCount]);
          t.same(seen, [['T', 4]], project);
          const child = await store.traces.getObservation(project, 'child');
          t.match(child, { traceId: 'T', name: 'patched' });
          const page = await store.traces.listObservations(project, 'T', { limit: 10 });
          const ids = page.items.map(({ id }) => id);
          t.same(ids.sort(), ['child', 'grandchild', 'great-grandchild', 'root']);
        }
      }
    },
  );

  t.test('gives a run without its parent a trace of its own', async (t) => {
    const { store } = await open(t);
    const asRun = { format: 'runs' as const };
    const orphan = anObservation({ ...START, id: 'a', parentId: 'b', traceId: null });
    await write(store, [orphan], asRun);
    t.match(await store.traces.getObservation(P, 'a'), { traceId: 'a', parentId: 'b' });
    // Two that are each other's parent, and one that is its own, hold nothing up.
    await write(store, [anObservation({ ...START, id: 'b', parentId: 'a', traceId: null })], asRun);
    t.equal((await store.traces.getObservation(P, 'b'))?.traceId, 'a');
    const other = { ...asRun, tenant: aTenant({ projectId: 'proj_other' }) };
    await write(store, [anObservation({ ...START, id: 'b', traceId: 'T' })], other);
    t.equal((await store.traces.getObservation(P, 'a'))?.traceId, 'a', 'of its own project alone');
    await write(store, [anObservation({ id: 'a', traceId: 'said' })], asRun);
    t.equal((await store.traces.getObservation(P, 'a'))?.traceId, 'said');
    t.equal((await store.traces.getObservation(P, 'b'))?.traceId, 'said');
    t.equal(await store.traces.getTrace(P, 'a'), undefined);
  });

  t.test('matches updates and creations within a project only', async (t) => {
    const { store, reopen } = await open(t);
    const update = anObservation({ id: 'run', traceId: null, name: 'patched' });
    await write(store, [update], { tenant: aTenant({ projectId: 'proj_other' }) });
    await write(store, [anObservation({ id: 'run', name: 'mine' })]);
    t.equal((await store.traces.getObservation(P, 'run'))?.name, 'mine');
    const after = await reopen();
    await write(after, [anObservation({ ...START, id: 'run' })], {
      tenant: aTenant({ projectId: 'proj_other' }),
    });
    t.equal((await after.traces.getObservation('proj_other', 'run'))?.name, 'patched');
  });
}

function listings(t: Test, open: Open): void {
  const at = (ms: number, ns = 0) => ({ ms: T0 + ms, ns });

  t.test('sums the observations of a trace', async (t) => {
    const { store } = await open(t);
    const usage = { input_tokens: 10, output_tokens: 1 };
    await write(store, [
      anObservation({ id: 'late', parentId: 'root', startTime: at(5), endTime: at(90), usage }),
      anObservation({ id: 'early', parentId: 'root', startTime: at(1), endTime: at(2), usage }),
    ]);
    t.match(await store.traces.getTrace(P, 'trace-1'), { observationCount: 2, startTime: at(1) });
    await write(store, [
      anObservation({
        id: 'root',
        kind: 'chain',
        name: 'top',
        status: 'error',
        startTime: at(3),
        usage,
      }),
    ]);
    t.match(await store.traces.getTrace(P, 'trace-1'), {
      id: 'trace-1',
      name: 'top',
      status: 'error',
      startTime: at(1),
      endTime: at(90),
      observationCount: 3,
      usage: { input_tokens: 20, output_tokens: 2, total_tokens: 22 },
    });
  });

  t.test('applies corrections to the trace, also decreases', async (t) => {
    const { store } = await open(t);
    const one = { id: 'one', startTime: at(1), endTime: at(9), usage: { input_tokens: 5 } };
    const two = { id: 'two', startTime: at(3), endTime: at(4), usage: { input_tokens: 1 } };
    await write(store, [anObservation(one), anObservation({ ...two, name: 'second' })]);
    await write(store, [
      anObservation({
        ...one,
        version: '1',
        startTime: at(6),
        endTime: at(7),
        parentId: 'x',
        usage: { output_tokens: 2 },
      }),
    ]);
    t.match(await store.traces.getTrace(P, 'trace-1'), {
      name: 'second',
      startTime: at(3),
      endTime: at(7),
      observationCount: 2,
      usage: { input_tokens: 1, output_tokens: 2 },
    });
  });

  t.test('lists traces newest first, in pages', async (t) => {
    const { store } = await open(t);
    const times = [at(3), at(1, 1), at(1, 2), at(1, 1), at(2)];
    for (const [i, startTime] of times.entries()) {
      await write(store, [anObservation({ traceId: `t${i}`, startTime })]);
    }
    const seen: string[] = [];
    let cursor: string | undefined;
    do {
      const page = await store.traces.listTraces(P, { limit: 2, ...(cursor && { cursor }) });
      seen.push(...page.items.map(({ id }) => id));
      cursor = page.nextCursor ?? undefined;
    } while (cursor !== undefined);
    t.same(seen, ['t0', 't4', 't2', 't3', 't1']);
    for (const bad of ['', 'x', '!!', Buffer.from('1.2').toString('base64url')]) {
      const listing = store.traces.listTraces(P, { limit: 2, cursor: bad });
      await t.rejects(listing, { name: 'StoreError', code: 'invalid_cursor' });
    }
  });

  t.test(
    'observations are listed by start, then arrival, those without a start last',
    async (t) => {
      const { store } = await open(t);
      const starts = [null, at(5), at(1, 7), at(5), null, at(-1e12)];
      await write(
        store,
        starts.map((startTime, i) => anObservation({ id: `o${i}`, startTime })),
      );
      const seen: string[] = [];
      let cursor: string | undefined;
      do {
        const page: { items: readonly StoredObservation[]; nextCursor: string | null } =
          await store.traces.listObservations(P, 'trace-1', {
            limit: 1,
            ...(cursor && { cursor }),
          });
        seen.push(...page.items.map(({ id }) => id));
        cursor = page.nextCursor ?? undefined;
      } while (cursor !== undefined);
      t.same(seen, ['o5', 'o2', 'o1', 'o3', 'o0', 'o4']);
      const none = await store.traces.listObservations(P, 'none', { limit: 1 });
      t.match(none, { items: [], nextCursor: null });
    },
  );

  t.test('a tree has the pages of the observations, and their narrow fields', async (t) => {
    const { store } = await open(t);
    const details = { provider: 'p', inputBytes: 7, scope: 's' };
    const error = { message: 'm', type: 'T', stacktrace: null };
    await write(store, [
      anObservation({ id: 'root', startTime: at(0), kind: 'chain', details, sessionId: 's' }),
      anObservation({ id: 'b', parentId: 'root', startTime: at(2), usage: { input_tokens: 1 } }),
      anObservation({ id: 'a', parentId: 'root', startTime: at(1), status: 'error', error }),
    ]);
    // A second event, so that fields have winners of their own.
    await write(store, [anObservation({ id: 'b', startTime: at(2), model: 'm', version: '1' })]);
    const read = (cursor?: string) =>
      store.traces.listTree(P, 'trace-1', { limit: 2, ...(cursor && { cursor }) });
    const first = await read();
    t.match(first.items, [
      { id: 'root', parentId: null, kind: 'chain', state: 'finished', details },
      { id: 'a', parentId: 'root', state: 'error', error: JSON.stringify(error) },
    ]);
    const last = await read(first.nextCursor ?? '');
    t.match(last.items, [{ id: 'b', model: 'm', usage: '{"input_tokens":1}' }]);
    t.equal(last.nextCursor, null);
    const { items } = await store.traces.listObservations(P, 'trace-1', { limit: 9 });
    for (const [i, one] of [...first.items, ...last.items].entries()) {
      const { startMs, startNs, endMs, endNs, usage, error, ...same } = one;
      const listed = items[i];
      t.match(listed, same);
      t.same([startMs, startNs], [listed?.startTime?.ms, listed?.startTime?.ns]);
      t.same([endMs, endNs], [listed?.endTime?.ms ?? null, listed?.endTime?.ns ?? null]);
      t.same(
        [usage, error].map((text) => JSON.parse(text ?? 'null')),
        [listed?.usage, listed?.error],
      );
    }
    t.match(await store.traces.listTree(P, 'none', { limit: 1 }), { items: [], nextCursor: null });
    t.match(await store.traces.listTree('proj_other', 'trace-1', { limit: 1 }), { items: [] });
  });

  t.test('a step of a search looks at 512 traces, and the next one behind them', async (t) => {
    const { store } = await open(t);
    const make = (i: number) =>
      anObservation({ traceId: `t${i}`, id: `t${i}`, name: `n${i}`, startTime: at(i) });
    const search = (cursor?: string) =>
      store.traces.listTraces(P, {
        limit: 9,
        query: aQuery('name:n0*'),
        ...(cursor && { cursor }),
      });
    t.equal(SEARCHED_TRACES, 512);
    await write(store, numbers(0, 511).map(make));
    const fewer = { items: [{ id: 't0' }], nextCursor: null, searchedTo: null };
    t.match(await search(), fewer, 'fewer than a step');
    await write(store, [make(511)]);
    const whole = await search();
    const step = { items: [{ id: 't0' }], nextCursor: String, searchedTo: at(0), spentMs: Number };
    t.match(whole, step, 'exactly a step');
    t.match(await search(whole.nextCursor ?? ''), { items: [], nextCursor: null });
    await write(store, [make(512)]);
    const first = await search();
    t.match(first, { items: [], nextCursor: String, searchedTo: at(1) }, 'one more than a step');
    t.match(await search(first.nextCursor ?? ''), { items: [{ id: 't0' }], nextCursor: null });
  });

  t.test('a page ends after 256 KiB of rows, and the next one begins behind it', async (t) => {
    const { store } = await open(t);
    const customFields = { text: 'x'.repeat(60_000) };
    const times = numbers(0, 12);
    await write(
      store,
      times.map((i) => anObservation({ id: `o${i}`, startTime: at(i), customFields })),
    );
    const list = (cursor?: string) =>
      store.traces.listObservations(P, 'trace-1', { limit: 12, ...(cursor && { cursor }) });
    const seen: string[] = [];
    let page = await list();
    t.equal(page.items.length, 4);
    t.equal((await list(page.cursorAfter(1))).items[0]?.id, 'o2', 'continues behind any item');
    for (;;) {
      seen.push(...page.items.map(({ id }) => id));
      if (page.nextCursor === null) break;
      page = await list(page.nextCursor);
    }
    t.same(
      seen,
      times.map((i) => `o${i}`),
    );
  });

  t.test('listings cut texts that are stored beyond their limits', async (t) => {
    const { store } = await open(t);
    const long = '\u00e4"\\'.repeat(1_000_000);
    const error = { message: long, type: long, stacktrace: null };
    const observation = anObservation({
      ...{ name: long, model: long, sessionId: long, userId: long, error },
      customFields: { short: 's', long },
    });
    await write(store, [observation]);
    const isCut = (text: string | null | undefined) => t.equal(text?.at(-1), '…');
    const [trace] = (await store.traces.listTraces(P, { limit: 1 })).items;
    t.ok(Buffer.byteLength(trace?.name ?? '') <= 2048);
    const [listed] = (await store.traces.listObservations(P, 'trace-1', { limit: 1 })).items;
    for (const text of [listed?.name, listed?.model, listed?.sessionId, listed?.userId]) {
      isCut(text);
      t.ok(Buffer.byteLength(text ?? '') <= 2048);
    }
    isCut(listed?.error?.message);
    t.ok((listed?.error?.message?.length ?? 0) <= 65_536);
    t.equal(listed?.customFields?.short, 's');
    isCut(listed?.customFields?.long);
    const whole = await store.traces.getObservation(P, observation.id);
    t.equal(whole?.name, long, 'an observation alone is read in full');
    t.equal(whole?.customFields?.long, long);
  });
}

function numbers(first: number, end: number): number[] {
  return Array.from({ length: end - first }, (_, i) => first + i);
}

/** An event of one observation, with every field there or not. */
function anEvent(): fc.Arbitrary<Observation> {
  const maybe = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: null });
  const time = fc.integer({ min: 0, max: 9 }).map((ms) => ({ ms: T0 + ms, ns: ms }));
  return fc
    .record({
      operation: fc.constantFrom('start' as const, 'finish' as const, 'error' as const),
      version: fc.constantFrom('0', '0', '1', '18446744073709551615'),
      parentId: maybe(fc.constantFrom('p', 'q')),
      name: maybe(fc.constantFrom('n', 'm')),
      kind: maybe(fc.constantFrom('llm' as const, 'chain' as const)),
      status: maybe(fc.constantFrom('running' as const, 'ok' as const)),
      startTime: maybe(time),
      endTime: maybe(time),
      ended: fc.boolean(),
      usage: maybe(fc.record({ input_tokens: fc.integer({ min: 0, max: 9 }) })),
      customFields: maybe(fc.constantFrom({ a: '1' }, { b: '2' })),
      details: maybe(
        fc.constantFrom({ tags: ['a'] }, { tags: ['b'], tool: 't' }, { tool: 'u', ttftMs: 1 }),
      ),
      payloadMask: fc.integer({ min: 0, max: 31 }),
    })
    .map((fields) => anObservation(fields));
}

function permutations<T>(list: readonly T[]): T[][] {
  if (list.length <= 1) return [[...list]];
  return list.flatMap((first, i) =>
    permutations([...list.slice(0, i), ...list.slice(i + 1)]).map((rest) => [first, ...rest]),
  );
}

/** A row without what names the order's own project and batches. */
function comparable(row: ObservationWithEvents | undefined): unknown {
  if (row === undefined) return undefined;
  const { projectId: _, payload, events, ...rest } = row;
  const batchOf = (ref: EventRef): string => ref.batchId.slice(6);
  return {
    ...rest,
    payload: Object.entries(payload).map(([field, ref]) => [field, batchOf(ref)]),
    events: events.map(batchOf).sort(),
  };
}
