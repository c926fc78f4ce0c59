import { hash } from 'node:crypto';
import type { Test } from 'tap';
import type { ObservationBatch, SealedBatch } from '../../src/model/batch.ts';
import { observe } from '../../src/model/formats.ts';
import { ulid } from '../../src/model/ulid.ts';
import type { NewAttachment } from '../../src/store/attachments.ts';
import { PIECE_BYTES } from '../../src/store/attachments.ts';
import type { Store } from '../../src/store/store.ts';
import { anObservation, aTenant, testProject as P, rawBatch } from '../helper/batches.ts';
import type { FakeClock } from '../helper/clock.ts';
import { aQuery } from '../helper/query.ts';

export type OpenForAttachments = (t: Test) => Promise<{
  readonly clock: FakeClock;
  readonly store: Store;
  finish(): Promise<void>;
  reopen(how?: 'close' | 'crash'): Promise<Store>;
}>;

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

function content(bytes: number, fill = 'x'): NewAttachment {
  const text = Buffer.alloc(bytes, fill);
  return { sha256: hash('sha256', text, 'buffer'), contentType: 'image/png', content: text };
}

function batchAt(receivedAt: number, projectId = P): SealedBatch {
  const body = Buffer.from('{"post":[{"id":"run"}],"patch":[]}');
  const tenant = aTenant({ projectId });
  return rawBatch('runs', body, 1, { id: ulid(receivedAt), receivedAt, tenant });
}

/** A batch of whole traces of one run each, with the attachments that its receiver noted. */
function runsBatch(
  receivedAt: number,
  projectId: string,
  runs: readonly { readonly id: string; readonly contents: readonly NewAttachment[] }[],
): SealedBatch {
  const post = runs.map(({ id, contents }) => ({
    ...{ id, trace_id: id, dotted_order: `20240101T000000000000Z${id}`, name: id },
    ...{ run_type: 'chain', start_time: '2024-01-01T00:00:00Z' },
    attachments: Object.fromEntries(
      contents.map(({ sha256, contentType, content: { length } }, i) => [
        `file ${i}`,
        { mime_type: contentType, bytes: length, sha256: sha256.toString('hex') },
      ]),
    ),
  }));
  const tenant = aTenant({ projectId });
  const body = Buffer.from(JSON.stringify({ post, patch: [] }));
  return rawBatch('runs', body, runs.length, { id: ulid(receivedAt), receivedAt, tenant });
}

function observed(source: SealedBatch): ObservationBatch {
  return { kind: 'observations', source, observations: observe(source) };
}

async function firstProject(store: Store): Promise<string> {
  const [project] = await store.projects.list();
  return project?.id ?? '';
}

type Writing = { readonly traceId?: string | null; readonly parentId?: string };

/** Writes a run that has the attachments. */
async function write(
  store: Store,
  source: SealedBatch,
  id: string,
  attachments: readonly NewAttachment[],
  { traceId = id, parentId }: Writing = {},
): Promise<void> {
  const noted = attachments.map(({ sha256, contentType, content: { length } }, i) => ({
    ...{ name: `file ${i}`, contentType, bytes: length, sha256: sha256.toString('hex') },
  }));
  const details = { attachments: noted };
  const observation = anObservation({ id, traceId, parentId: parentId ?? null, details });
  await store.traces.write({ kind: 'observations', source, observations: [observation] });
}

/** The stored bytes, whether or not an observation refers to them. */
async function bytesIn(
  store: Store,
  { sha256 }: NewAttachment,
  projectId = P,
): Promise<number | undefined> {
  let bytes: number | undefined;
  for (let i = 0; ; i++) {
    const piece = await store.attachments.read(projectId, sha256, i);
    if (piece === undefined) return bytes;
    bytes = (bytes ?? 0) + piece.length;
  }
}

/** The rules for attachments: stored once, and kept as long as something refers to them. */
export function attachments(t: Test, open: OpenForAttachments): void {
  t.test('a content of any size is read back once an observation refers to it', async (t) => {
    const { store, clock, reopen } = await open(t);
    const source = batchAt(clock.now());
    const sizes = [0, 1, PIECE_BYTES, PIECE_BYTES + 1, 2 * PIECE_BYTES + 5];
    const all = sizes.map((size) => content(size));
    await store.attachments.put(P, source.id, all);
    for (const { sha256 } of all) t.equal(await store.attachments.find(P, sha256), undefined);
    await write(store, source, 'run', all);
    const again = await reopen('crash');
    for (const one of all) {
      const { sha256, contentType } = one;
      const { length } = one.content;
      t.same(await again.attachments.find(P, sha256), { bytes: length, contentType }, `${length}`);
      t.equal((await bytesIn(again, one)) ?? 0, length);
      t.equal(await again.attachments.find('proj_other', sha256), undefined);
    }
    const stored = await again.traces.getObservation(P, 'run');
    t.same(
      stored?.details?.attachments?.map(({ bytes }) => bytes),
      sizes,
    );
  });

  t.test('a content is stored once, and keeps its bytes and its first type', async (t) => {
    const { store, clock } = await open(t);
    const [one, large] = [content(10), content(PIECE_BYTES + 1)];
    const sources = [batchAt(clock.now()), batchAt(clock.now())];
    await Promise.all(sources.map(({ id }) => store.attachments.put(P, id, [one, large, one])));
    for (const [i, source] of sources.entries()) await write(store, source, `r${i}`, [one, large]);
    const other = { ...one, contentType: 'text/html' };
    await store.attachments.put(P, batchAt(clock.now()).id, [other]);
    t.same(await store.attachments.find(P, one.sha256), { bytes: 10, contentType: 'image/png' });
    t.equal(await bytesIn(store, one), 10);
    t.equal(await bytesIn(store, large), PIECE_BYTES + 1);
  });

  t.test('an observation refers to stored contents only', async (t) => {
    const { store, clock } = await open(t);
    const late = content(3, 'late');
    await write(store, batchAt(clock.now()), 'run', [late]);
    t.equal(await store.attachments.find(P, late.sha256), undefined);
    await store.attachments.put(P, batchAt(clock.now()).id, [late]);
    t.equal(await store.attachments.find(P, late.sha256), undefined);
  });

  t.test(
    'a content stays while its batch waits, for 30 days, and not after a release',
    async (t) => {
      const { store, clock, finish } = await open(t);
      const [waits, released] = [content(4, 'waits'), content(5, 'released')];
      const source = batchAt(clock.now());
      const refused = batchAt(clock.now());
      await store.attachments.put(P, source.id, [waits]);
      await store.attachments.put(P, refused.id, [waits, released]);
      await store.attachments.release(refused.id);
      clock.set(clock.now() + 2 * HOUR);
      await finish();
      t.equal(await bytesIn(store, released), undefined);
      t.equal(await bytesIn(store, waits), 4);
      clock.set(source.receivedAt + 30 * DAY);
      await finish();
      t.equal(await bytesIn(store, waits), 4, 'exactly 30 days');
      clock.set(clock.now() + 2 * HOUR);
      await finish();
      t.equal(await bytesIn(store, waits), undefined);
    },
  );

  t.test('a run whose trace is not known yet holds its attachments', async (t) => {
    const { store, clock, finish } = await open(t);
    const [update, child] = [content(6, 'update'), content(7, 'child')];
    const first = batchAt(clock.now());
    await store.attachments.put(P, first.id, [update]);
    await write(store, first, 'parent', [update], { traceId: null });
    const second = batchAt(clock.now());
    await store.attachments.put(P, second.id, [child]);
    await write(store, second, 'child', [child], { traceId: null, parentId: 'parent' });
    clock.set(clock.now() + 2 * HOUR);
    await finish();
    t.equal(await bytesIn(store, update), 6);
    t.equal(await store.attachments.find(P, update.sha256), undefined, 'no observation has it');
    await write(store, batchAt(clock.now()), 'parent', [], { traceId: 'trace' });
    for (const one of [update, child]) t.ok(await store.attachments.find(P, one.sha256));
    clock.set(clock.now() + 2 * HOUR);
    await finish();
    for (const one of [update, child]) t.ok(await store.attachments.find(P, one.sha256));
  });

  t.test('attachments expire with the last trace that refers to them', async (t) => {
    const { store, clock, finish } = await open(t);
    const { id: project } = await store.projects.create('short');
    await store.projects.update(project, { retentionDays: 10 });
    const begun = clock.now();
    const [alone, shared] = [content(8, 'alone'), content(PIECE_BYTES + 9, 'shared')];
    for (const [name, at] of [
      ['old', 0],
      ['new', 5 * DAY],
    ] as const) {
      const source = batchAt(begun + at, project);
      const of = name === 'old' ? [alone, shared] : [shared];
      await store.attachments.put(project, source.id, of);
      await write(store, source, name, of);
    }
    clock.set(begun + 10 * DAY + 1);
    t.equal(await store.attachments.find(project, alone.sha256), undefined, 'at once');
    t.ok(await store.attachments.find(project, shared.sha256));
    clock.set(begun + 12 * DAY);
    await finish();
    t.equal(await bytesIn(store, alone, project), undefined);
    t.equal(await bytesIn(store, shared, project), PIECE_BYTES + 9);
    clock.set(begun + 18 * DAY);
    await finish();
    clock.set(clock.now() + 2 * HOUR);
    await finish();
    t.equal(await bytesIn(store, shared, project), undefined);
  });

  t.test('an erasure removes the attachments of its traces', async (t) => {
    const { store, clock, finish } = await open(t);
    const [project] = await store.projects.list();
    const id = project?.id ?? '';
    const [own, shared] = [content(2 * PIECE_BYTES, 'own'), content(5, 'shared')];
    for (const name of ['erased', 'kept']) {
      const source = batchAt(clock.now(), id);
      const of = name === 'erased' ? [own, shared] : [shared];
      await store.attachments.put(id, source.id, of);
      await write(store, source, name, of);
    }
    clock.set(clock.now() + 1000);
    const by = { actor: 'admin-token', address: null };
    const request = { query: aQuery('id:erased'), isDryRun: false };
    await store.erasures.request(id, request, by);
    await finish();
    t.equal(await bytesIn(store, own, id), undefined);
    t.ok(await store.attachments.find(id, shared.sha256));
    t.equal(await bytesIn(store, shared, id), 5);
  });

  t.test('a batch in a queue, and a dead letter, hold their attachments for longer', async (t) => {
    const { store, clock, finish } = await open(t);
    const project = await firstProject(store);
    const queue = await store.openQueue({ name: 'q', branches: ['x', 'y'], maxBytes: 1e9 });
    const dead = content(5, 'dead');
    const source = runsBatch(clock.now(), project, [{ id: 'late', contents: [dead] }]);
    await store.attachments.put(project, source.id, [dead]);
    await queue.append(source);
    const [waits] = await queue.lease('x', 1, 1e9);
    const [fails] = await queue.lease('y', 1, 1e9);
    if (waits === undefined || fails === undefined) throw new Error('the queue is empty');
    await queue.deadLetter('y', fails, { code: 'bad', message: 'bad' });
    for (const ends of ['waits', 'is a dead letter']) {
      clock.set(clock.now() + 31 * DAY);
      await finish();
      t.equal(await bytesIn(store, dead, project), 5, ends);
      await queue.ack('x', ends === 'waits' ? [waits] : []);
    }
    await queue.replay('all');
    const [again] = await queue.lease('y', 1, 1e9);
    if (again === undefined) throw new Error('the dead letter is gone');
    await store.traces.write(observed(again.batch));
    await store.traces.write(observed(again.batch));
    await queue.ack('y', [again]);
    clock.set(clock.now() + 2 * HOUR);
    await finish();
    t.ok(await store.attachments.find(project, dead.sha256), 'served after the replay');
  });

  t.test('an erasure removes the attachments of what waits in a queue', async (t) => {
    const { store, clock, finish } = await open(t);
    const project = await firstProject(store);
    const queue = await store.openQueue({ name: 'q', branches: ['x'], maxBytes: 1e9 });
    const [own, shared, lone] = [content(5, 'own'), content(6, 'shared'), content(7, 'lone')];
    const both = runsBatch(clock.now(), project, [
      { id: 'erased', contents: [own, shared] },
      { id: 'kept', contents: [shared] },
    ]);
    const alone = runsBatch(clock.now(), project, [{ id: 'erased', contents: [lone] }]);
    for (const [source, contents] of [
      [both, [own, shared]],
      [alone, [lone]],
    ] as const) {
      await store.attachments.put(project, source.id, contents);
      await queue.append(source);
    }
    clock.set(clock.now() + 1000);
    const by = { actor: 'admin-token', address: null };
    await store.erasures.request(project, { query: aQuery('id:erased'), isDryRun: false }, by);
    await finish();
    for (const one of [own, lone]) t.equal(await bytesIn(store, one, project), undefined);
    t.equal(await bytesIn(store, shared, project), 6, 'the other run of the batch has it');
    for (const { batch } of await queue.lease('x', 10, 1e9)) {
      await store.traces.write(observed(batch));
    }
    t.ok(await store.attachments.find(project, shared.sha256));
  });

  t.test('a blocked run that is on its way is stored without its attachments', async (t) => {
    const { store, clock, finish } = await open(t);
    const project = await firstProject(store);
    const [own, shared] = [content(5, 'own'), content(6, 'shared')];
    const source = runsBatch(clock.now(), project, [
      { id: 'blocked', contents: [own, shared] },
      { id: 'kept', contents: [shared] },
    ]);
    await store.attachments.put(project, source.id, [own, shared]);
    const by = { actor: 'admin-token', address: null };
    const blockUntil = clock.now() + DAY;
    const request = { query: aQuery('id:blocked'), isDryRun: false, blockUntil };
    await store.erasures.request(project, request, by);
    await finish();
    await store.traces.write(observed(source));
    clock.set(clock.now() + 2 * HOUR);
    await finish();
    t.equal(await bytesIn(store, own, project), undefined);
    t.ok(await store.attachments.find(project, shared.sha256));
  });

  t.test('a deleted project loses its attachments, and takes no more', async (t) => {
    const { store, clock, finish } = await open(t);
    const { id } = await store.projects.create('gone');
    const [one, waits] = [content(PIECE_BYTES * 2, 'one'), content(3, 'waits')];
    const source = batchAt(clock.now(), id);
    await store.attachments.put(id, source.id, [one, waits]);
    await write(store, source, 'run', [one]);
    await store.projects.delete(id);
    await t.rejects(store.attachments.put(id, source.id, [one]), { code: 'unknown_project' });
    await finish();
    for (const each of [one, waits]) t.equal(await bytesIn(store, each, id), undefined);
  });
}
