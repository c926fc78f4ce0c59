import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import t from 'tap';
import type { CleaningStep } from '../../../extensions/sqlite/erasing/clean-operations.ts';
import { cleanReadOperations } from '../../../extensions/sqlite/erasing/clean-operations.ts';
import type { SqliteTracesParts } from '../../../extensions/sqlite/traces/traces.ts';
import { sqliteTraces } from '../../../extensions/sqlite/traces/traces.ts';
import type { SealedBatch } from '../../../src/model/batch.ts';
import { observe } from '../../../src/model/formats.ts';
import { ChangeFeed } from '../../../src/store/changes.ts';
import { ErasedInFlight } from '../../../src/store/erasing/in-flight.ts';
import type { BatchRows } from '../../../src/store/rows/batch-rows.ts';
import {
  anObservation,
  answered,
  aTenant,
  nativeBatch,
  nativeEvent,
} from '../../helper/batches.ts';
import { sqlitePlace } from '../../helper/places.ts';
import { aQuery } from '../../helper/query.ts';

const CANARY = 'canary-5d20c7ae';
const BY = { actor: 'admin-token', address: null };

/** How often a text occurs in the files of a directory. */
function sightings(directory: string, text: string): number {
  let count = 0;
  for (const name of readdirSync(directory)) {
    const bytes = readFileSync(join(directory, name));
    for (let at = bytes.indexOf(text); at !== -1; at = bytes.indexOf(text, at + 1)) count++;
  }
  return count;
}

/** An event whose every text is marked; `times` makes it large. */
function event(i: number, mark: string, times: number): Record<string, unknown> {
  const text = (what: string): string => `${mark} ${what} ${i} `.repeat(times);
  return nativeEvent({
    id: `${mark}-${i}`,
    trace_id: `${mark}-trace-${i % 9}`,
    name: text('name'),
    inputs: text('input'),
    outputs: text('output'),
    model: `${mark} model`,
    session_id: `${mark} session ${i % 4}`,
    user_id: `${mark} user`,
    error: { message: text('message'), type: `${mark} type` },
    metadata: {
      custom_fields: { note: text('note'), [`${mark} key`]: 'x' },
      tags: [`${mark} tag`],
    },
  });
}

/** A write over a database that notes the traces of each call; `onCall` runs within the call. */
function writing(has: { batch: boolean }, onCall: () => void, onLargeBody: () => void = () => {}) {
  const inFlight = new ErasedInFlight();
  const calls: unknown[][] = [];
  const bodies: string[] = [];
  const entered: string[] = [];
  const wakes = { wake() {} };
  const parts = {
    ...{ inFlight, changes: new ChangeFeed(), terms: { leftOut() {} } },
    ...{ summaries: wakes, rollups: wakes, postings: wakes, texts: wakes },
    blocks: { left: (batch: unknown) => batch },
    retention: { since: () => 0 },
    database: {
      async write(_: string, [{ traces }, record]: [BatchRows, unknown]) {
        if (!has.batch && record === null) return { state: 'needs batch' };
        calls.push(traces.map(({ key }) => key));
        onCall();
        return { state: 'written', isCounted: true, isSummarized: true, traceIds: [] };
      },
    },
    queues: {
      usage: { entering: () => 1, entered: (_: string, how: string) => entered.push(how) },
      largeBodies: {
        isLarge: () => true,
        async write({ body }: SealedBatch) {
          bodies.push(body.toString());
          onLargeBody();
          return { numbers: [], crc: 0 };
        },
        async end() {},
      },
    },
  };
  const traces = sqliteTraces(parts as unknown as SqliteTracesParts);
  return {
    ...{ inFlight, calls, bodies, entered },
    write: (source: SealedBatch) =>
      traces.write({ kind: 'observations', source, observations: observe(source) }),
  };
}

/** A batch of events, each in a trace of its own. */
function batchOfTraces(count: number): SealedBatch {
  const events = Array.from({ length: count }, (_, i) => ({ id: `o${i}`, trace_id: `t${i}` }));
  return nativeBatch(events.map(nativeEvent));
}

t.test('a write of several calls leaves out what is erased between them', async (t) => {
  const source = batchOfTraces(450);
  const place = writing({ batch: true }, () => place.inFlight.add(source.id, [0, 199, 200, 449]));
  await place.write(source);
  const names = Array.from({ length: 450 }, (_, i) => `t${i}`);
  t.same(place.calls, [names.slice(0, 200), names.slice(201, 401), names.slice(401, 449)]);
});

t.test('a write leaves out what is erased while it writes a large body', async (t) => {
  const source = batchOfTraces(3);
  const place = writing(
    { batch: false },
    () => {},
    () => place.inFlight.add(source.id, [1]),
  );
  await place.write(source);
  t.same(place.calls, [['t0', 't2']]);
  t.same(place.entered, ['failed', 'written']);
  t.equal(place.bodies.length, 2);
  t.notMatch(place.bodies[1], '"t1"');
});

t.test('no file of a store keeps a byte of an erased user', async (t) => {
  const place = sqlitePlace(t);
  const { store, finish, close } = await place.open();
  t.teardown(close);
  const [project] = await store.projects.list();
  const projectId = project?.id ?? '';
  const queue = await store.openQueue({ name: 'q', branches: ['a'], maxBytes: 1e9 });
  for (let i = 0; i < 60; i++) {
    const times = i === 30 ? 9000 : 1 + (i % 7) * 13;
    const source = nativeBatch(
      [event(i, CANARY, times), event(i, 'kept', times), event(i + 100, CANARY, 1)],
      { tenant: aTenant({ projectId }), receivedAt: place.clock.now() + i },
    );
    const body = Buffer.from(JSON.stringify({ results: [{ index: 0, id: `${CANARY}-${i}` }] }));
    const answer = { status: 202, contentType: 'application/json', body };
    await queue.append(
      source,
      answered({ key: `k${i}`, requestHash: Buffer.alloc(32, i), ...answer }),
    );
    await store.traces.write({ kind: 'observations', source, observations: observe(source) });
    // A second merge overwrites the row.
    const later = anObservation({
      ...{ id: `${CANARY}-${i}`, traceId: `${CANARY}-trace-${i % 9}`, index: 0 },
      ...{ name: `${CANARY} later ${i}`, userId: `${CANARY} user`, version: '1' },
    });
    await store.traces.write({ kind: 'observations', source, observations: [later] });
  }
  const [dead, ...others] = await queue.lease('a', 40, 1e9);
  if (dead !== undefined) await queue.deadLetter('a', dead, { code: 'bad', message: CANARY });
  await queue.ack('a', others.slice(0, 20));
  await finish();
  t.ok(sightings(place.directory, CANARY) > 1000, 'the files hold it before');
  place.clock.set(place.clock.now() + 1000);
  const query = aQuery(`user:"${CANARY} user"`);
  const { id } = await store.erasures.request(projectId, { query, isDryRun: false }, BY);
  await finish();
  const erased = await store.erasures.get(projectId, id);
  t.match(erased, { state: 'done', traces: 9, observations: 120 });
  t.ok(erased?.receipt?.copies.includes('unused_space'), 'where a row was before SQLite moved it');
  t.equal(sightings(place.directory, CANARY), 0);
  const { items } = await store.traces.listTraces(projectId, { limit: 100 });
  t.equal(items.length, 9, 'the other traces stay');
  t.ok(sightings(place.directory, 'kept input 30 ') > 8000);
});

t.test('no payload of a trace that expired before is in a file after an erasure', async (t) => {
  const place = sqlitePlace(t);
  const { store, finish, close } = await place.open({ search: { payloads: '4KiB' } });
  t.teardown(close);
  const [project] = await store.projects.list();
  const projectId = project?.id ?? '';
  await store.projects.update(projectId, { retentionDays: 10 });
  const tenant = aTenant({ projectId });
  const write = async (events: readonly Record<string, unknown>[], more: object = {}) => {
    const source = nativeBatch(events.map(nativeEvent), {
      ...{ tenant, receivedAt: place.clock.now() },
      ...more,
    });
    await store.traces.write({ kind: 'observations', source, observations: observe(source) });
  };
  // Rollups keep names, users and models of expired traces (docs/privacy.md).
  const event = (mark: string, i: number, times = 1) => ({
    ...{ id: `${mark}-${i}`, trace_id: `${mark}-trace-${i}` },
    ...{ inputs: `${mark} input ${i} `.repeat(times), outputs: `${mark} output ${i}` },
  });
  for (let i = 0; i < 20; i++) await write([event(CANARY, i), event('kept', i)]);
  // A body in parts.
  await write([event(CANARY, 20, 90_000), event('kept', 20, 9000)]);
  place.clock.set(place.clock.now() + 9 * 86_400_000);
  await write(Array.from({ length: 21 }, (_, i) => ({ ...event('kept', i), id: `later-${i}` })));
  place.clock.set(place.clock.now() + 2 * 86_400_000);
  await finish();
  t.equal((await store.traces.listTraces(projectId, { limit: 100 })).items.length, 21);
  t.ok(sightings(place.directory, CANARY) > 1000, 'the files hold it before');
  await store.erasures.request(projectId, { query: aQuery('user:nobody'), isDryRun: false }, BY);
  await finish();
  t.equal(sightings(place.directory, CANARY), 0);
  t.ok(sightings(place.directory, 'kept input 20 ') >= 9000);
});

t.test('a step of an erasure looks at 50 batches that have nothing to erase', async (t) => {
  const place = sqlitePlace(t);
  const { store, finish, close } = await place.open();
  const [project] = await store.projects.list();
  const tenant = aTenant({ projectId: project?.id ?? '' });
  const queue = await store.openQueue({ name: 'q', branches: ['a'], maxBytes: 1e9 });
  for (let i = 0; i < 120; i++) {
    const large = i === 110 ? 'x'.repeat(200_000) : '';
    await queue.append(
      nativeBatch([nativeEvent({ id: `o${i}`, trace_id: `t${i}`, inputs: large })], {
        ...{ tenant, receivedAt: place.clock.now() },
      }),
    );
  }
  await finish();
  await close();
  const db = new DatabaseSync(join(place.directory, 'store.db'));
  t.teardown(() => db.close());
  db.exec("INSERT INTO erasure_batches SELECT 'era', seq, 1 FROM raw_batches");
  const seqs = db
    .prepare('SELECT seq FROM raw_batches ORDER BY seq')
    .all()
    .map(({ seq }) => seq);
  const { 'erasing.clean': clean } = cleanReadOperations(db);
  const steps: unknown[] = [];
  for (let after: number | null = 0; after !== null; ) {
    const step: CleaningStep = clean('era', after, null);
    steps.push(step.without);
    t.match(step, { unreadable: 0, found: null });
    after = step.next;
  }
  t.same(steps, [seqs.slice(0, 50), seqs.slice(50, 100), seqs.slice(100, 111), seqs.slice(111)]);
});

t.test(
  'an erasure does not wait for the end of the walk over partly expired batches',
  async (t) => {
    const place = sqlitePlace(t);
    const before = await place.open();
    await before.close();
    const file = new DatabaseSync(join(place.directory, 'store.db'));
    const notes = 60_000;
    file.exec(`WITH RECURSIVE seqs (seq) AS (SELECT 1 UNION ALL SELECT seq + 1 FROM seqs WHERE seq < ${notes})
    INSERT INTO partly_expired SELECT seq + 1000000 FROM seqs`);
    const { store, close } = await place.open();
    t.teardown(close);
    t.teardown(() => file.close());
    const left = () => Number(file.prepare('SELECT count(*) AS n FROM partly_expired').get()?.n);
    const [project] = await store.projects.list();
    const projectId = project?.id ?? '';
    async function turnsUntil(isDone: () => Promise<boolean>): Promise<void> {
      while (!(await isDone())) {
        place.clock.advance(5);
        await store.audit.list({ limit: 1 });
      }
    }
    await turnsUntil(async () => left() < notes);
    // A dry run, because an erasure walks over the notes too.
    const request = { query: aQuery('user:nobody'), isDryRun: true };
    const { id } = await store.erasures.request(projectId, request, BY);
    await turnsUntil(async () => (await store.erasures.get(projectId, id))?.state === 'counted');
    t.ok(left() > 0);
  },
);
