import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import t from 'tap';
import { salvageSqliteStore } from '../../../extensions/sqlite/open-store.ts';
import { observe } from '../../../src/model/formats.ts';
import type { Store } from '../../../src/store/store.ts';
import { anObservation, aTenant, nativeBatch, nativeEvent } from '../../helper/batches.ts';
import { sqlitePlace } from '../../helper/places.ts';
import { aQuery } from '../../helper/query.ts';

t.test('a salvaged store makes the postings of its traces again', async (t) => {
  const place = sqlitePlace(t);
  const before = await place.open();
  const list = ['a', 'b'].map((traceId, index) => anObservation({ traceId, model: 'm', index }));
  const source = nativeBatch(list.length, { receivedAt: place.clock.now() });
  await before.store.traces.write({ kind: 'observations', source, observations: list });
  await before.finish();
  const { posted } = await place.termTables();
  await before.close();
  await salvageSqliteStore(place.directory, place.logger);
  const db = new DatabaseSync(join(place.directory, 'store.db'), { readOnly: true });
  t.teardown(() => db.close());
  t.match(db.prepare('SELECT n FROM posted_traces').all(), [{ n: 2 }], 'no trace waits');
  t.same((await place.termTables()).posted, []);
  const after = await place.open();
  t.teardown(() => after.close());
  await after.finish();
  t.same((await place.termTables()).posted, posted);
  const { projectId } = aTenant();
  const found = await after.store.traces.listTraces(projectId, {
    limit: 9,
    query: aQuery('model:m'),
  });
  t.equal(found.items.length, 2);
});

/** Overwrites the last page with rows of each table. */
function damageEnds(file: string, tables: readonly string[]): void {
  const db = new DatabaseSync(file);
  const leaves = db.prepare(
    "SELECT pgoffset, pgsize FROM dbstat WHERE name = ? AND pagetype = 'leaf' ORDER BY path DESC LIMIT 1",
  );
  const pages = tables.map((table) => leaves.get(table));
  db.close();
  const content = readFileSync(file);
  for (const page of pages) {
    const at = Number(page?.pgoffset);
    content.fill(0, at, at + Number(page?.pgsize));
  }
  writeFileSync(file, content);
}

t.test('a new trace and a new batch get nothing of those that a salvage lost', async (t) => {
  const place = sqlitePlace(t);
  let { store, ...opened } = await place.open();
  const write = async (projectId: string, traceId: string, size = 0): Promise<void> => {
    const observation = anObservation({ id: `${traceId}-o`, traceId });
    const event = { id: observation.id, trace_id: traceId, inputs: traceId.padEnd(size) };
    const source = nativeBatch([nativeEvent(event)], {
      tenant: aTenant({ projectId }),
      receivedAt: place.clock.now(),
    });
    await store.traces.write({ kind: 'observations', source, observations: [observation] });
  };
  const large = 3 * 1024 * 1024;
  for (let i = 0; i < 80; i++) await write('proj_a', `lost-${i}`);
  await write('proj_a', 'lost-large', large);
  await opened.close();
  const file = join(place.directory, 'store.db');
  damageEnds(file, ['traces', 'raw_batches']);
  const [salvaged] = await salvageSqliteStore(place.directory, place.logger);
  const left = new Map(salvaged?.tables.map(({ name, rows }) => [name, rows]));
  t.ok((left.get('traces') ?? 0) < 81, 'traces are lost');
  t.equal(left.get('observations'), left.get('traces'));
  t.equal(left.get('batch_traces'), left.get('traces'));
  t.equal(left.get('batch_parts'), 0);

  ({ store, ...opened } = await place.open());
  t.teardown(() => opened.close());
  for (let i = 0; i < 80; i++) await write('proj_b', `new-${i}`, i === 79 ? large : 0);
  const { items: traces } = await store.traces.listTraces('proj_b', { limit: 100 });
  t.equal(traces.length, 80);
  for (const { id } of traces) {
    const { items } = await store.traces.listObservations('proj_b', id, { limit: 9 });
    t.same(
      items.map((each) => each.id),
      [`${id}-o`],
    );
    const batches = items.flatMap(({ payload }) => payload.inputs?.batchId ?? []);
    const [batch] = await store.traces.getBatches('proj_b', batches);
    t.match(batch?.body.toString(), `"inputs":"${id}`);
  }
  const db = new DatabaseSync(file, { readOnly: true });
  t.teardown(() => db.close());
  const overlap = db.prepare(
    `SELECT count(*) AS n FROM raw_batches r JOIN batch_traces b ON b.batch = r.seq
     JOIN traces t ON t.n = b.trace WHERE t.project <> r.project`,
  );
  t.match(overlap.get(), { n: 0 }, 'no trace refers to a batch of another project');
});

t.test('an erasure cuts its items out of batches whose pairs a salvage lost', async (t) => {
  const place = sqlitePlace(t);
  const before = await place.open();
  const [project] = await before.store.projects.list();
  const projectId = project?.id ?? '';
  const named = (trace: string, more: Record<string, unknown> = {}) =>
    nativeEvent({ ...{ id: `${trace}-1`, trace_id: trace, ...more } });
  const write = (events: readonly Record<string, unknown>[]) => {
    const about = { tenant: aTenant({ projectId }), receivedAt: place.clock.now() };
    const source = nativeBatch([...events], about);
    return before.store.traces.write({
      ...{ kind: 'observations', source, observations: observe(source) },
    });
  };
  // Of the merged row, the inputs are in the first batch, and the outputs in the second.
  const [inputs, outputs] = ['doomed inputs', 'doomed outputs'];
  await write([named('doomed', { inputs, event_version: 1 }), named('other')]);
  await write([
    named('doomed', { inputs: undefined, outputs, event_version: 2 }),
    named('other-2'),
  ]);
  await before.close();
  const file = join(place.directory, 'store.db');
  damageEnds(file, ['batch_traces']);
  await salvageSqliteStore(place.directory, place.logger);
  const after = await place.open();
  t.teardown(() => after.close());
  place.clock.advance(1000);
  const by = { actor: 'admin-token', address: null };
  const erasure = { query: aQuery('id:doomed'), isDryRun: false };
  await after.store.erasures.request(projectId, erasure, by);
  await after.finish();
  const db = new DatabaseSync(file, { readOnly: true });
  t.teardown(() => db.close());
  const bodies = db.prepare('SELECT CAST(body AS TEXT) AS body FROM raw_batches').all();
  t.equal(bodies.length, 2);
  t.notMatch(JSON.stringify(bodies), /doomed/);
});

t.test('an attachment of which a salvage lost pieces is stored again', async (t) => {
  const place = sqlitePlace(t);
  const before = await place.open();
  const [project] = await before.store.projects.list();
  const projectId = project?.id ?? '';
  const content = Buffer.from('attached '.repeat(300));
  const sha256 = createHash('sha256').update(content).digest();
  const put = (store: Store) =>
    store.attachments.put(projectId, 'batch-1', [{ sha256, contentType: 'text/plain', content }]);
  await put(before.store);
  await before.close();
  const file = join(place.directory, 'store.db');
  damageEnds(file, ['attachment_pieces']);
  await salvageSqliteStore(place.directory, place.logger);
  const after = await place.open();
  t.teardown(() => after.close());
  t.equal(await after.store.attachments.read(projectId, sha256, 0), undefined);
  await put(after.store);
  t.same(await after.store.attachments.read(projectId, sha256, 0), content);
});

t.test('delivers the batches again that are in no trace, if it has lost entries', async (t) => {
  const place = sqlitePlace(t);
  const open = async () => {
    const opened = await place.open();
    const options = { name: 'q', branches: ['a', 'b'], maxBytes: 1e9 };
    return { ...opened, queue: await opened.store.openQueue(options) };
  };
  const first = await open();
  const [project] = await first.store.projects.list();
  const tenant = aTenant({ projectId: project?.id ?? '' });
  const receivedAt = place.clock.now();
  const [delivered, ...others] = [1, 2, 3].map((n) =>
    nativeBatch([nativeEvent({ id: `o${n}`, trace_id: `t${n}` })], { tenant, receivedAt }),
  );
  if (delivered === undefined) throw new Error('there is no batch');
  for (const batch of [delivered, ...others]) await first.queue.append(batch);
  const observations = observe(delivered);
  await first.store.traces.write({ kind: 'observations', source: delivered, observations });
  for (const branch of ['a', 'b']) {
    const entries = await first.queue.lease(branch, 1, 1e9);
    await first.queue.ack(branch, entries);
  }
  await first.close();
  damageEnds(join(place.directory, 'store.db'), ['queue_pending']);
  await salvageSqliteStore(place.directory, place.logger);
  const { queue, store, close } = await open();
  t.teardown(close);
  for (const branch of ['a', 'b']) {
    const again = await queue.lease(branch, 10, 1e9);
    t.same(
      again.map(({ batch }) => batch.id),
      others.map(({ id }) => id),
      branch,
    );
  }
  t.equal((await store.traces.listTraces(tenant.projectId, { limit: 9 })).items.length, 1);
});
