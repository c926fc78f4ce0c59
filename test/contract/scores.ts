import fc from 'fast-check';
import type { Test } from 'tap';
import type { NewScore, ScoreValue } from '../../src/store/scores.ts';
import type { Store } from '../../src/store/store.ts';
import { anObservation, aTenant, nativeBatch, testProject as P } from '../helper/batches.ts';
import type { FakeClock } from '../helper/clock.ts';
import { aQuery } from '../helper/query.ts';
import type { SharesStore } from './place.ts';

export type OpenForScores = SharesStore &
  ((t: Test) => Promise<{
    readonly clock: FakeClock;
    readonly store: Store;
    finish(): Promise<void>;
    reopen(how?: 'close' | 'crash'): Promise<Store>;
  }>);

const T0 = Date.UTC(2026, 0, 15, 12);
const DAY = 86_400_000;

function aScore(more: Partial<NewScore> = {}): NewScore {
  const texts = { observationId: null, comment: null, source: null };
  return { id: 'score-1', name: 'quality', value: 0.5, ...texts, at: T0, ...more };
}

async function write(
  store: Store,
  traceId: string,
  { projectId = P, receivedAt = T0, count = 1 } = {},
): Promise<void> {
  const source = nativeBatch(count, { receivedAt, tenant: aTenant({ projectId }) });
  const observations = Array.from({ length: count }, (_, index) =>
    anObservation({ traceId, id: `${traceId}-${index}`, index }),
  );
  await store.traces.write({ kind: 'observations', source, observations });
}

/** The rules for scores, which may arrive before their trace. */
export function scores(t: Test, open: OpenForScores): void {
  t.test('a score is read back as it was stored, and survives a crash', async (t) => {
    const { store, reopen } = await open(t);
    const odd = 'say "x" \\ \u0000 ü \u{1f600}';
    const given: NewScore[] = [
      aScore(),
      aScore({ id: 'b', name: 'ok', value: true, at: T0 + 1 }),
      aScore({ id: 'c', name: odd.replace('\u0000', ''), value: odd, at: T0 + 2 }),
      aScore({ id: 'd', observationId: odd, comment: odd, source: odd, value: '', at: T0 + 3 }),
    ];
    for (const score of given) {
      const { at, ...rest } = score;
      t.same(await store.scores.put(P, 't', score, 100), { ...rest, createdAt: at });
    }
    const stored = given.map(({ at, ...rest }) => ({ ...rest, createdAt: at }));
    t.same(await store.scores.list(P, 't'), stored);
    t.same(await store.scores.list(P, 'other'), []);
    t.same(await store.scores.list('proj_other', 't'), []);
    t.same(await (await reopen('crash')).scores.list(P, 't'), stored);
  });

  t.test('a score with the same id replaces the one before, in its trace only', async (t) => {
    const { store } = await open.shared();
    await store.scores.put(P, 't', aScore({ comment: 'first', source: 'human' }), 100);
    await store.scores.put(P, 'u', aScore({ value: 1 }), 100);
    const again = aScore({ name: 'other', value: 'good', at: T0 + 5 });
    t.match(await store.scores.put(P, 't', again, 100), { createdAt: T0, comment: null });
    t.match(await store.scores.list(P, 't'), [{ name: 'other', value: 'good', source: null }]);
    t.match(await store.scores.list(P, 'u'), [{ name: 'quality', value: 1 }]);
  });

  t.test('a score is found and removed by its id', async (t) => {
    const { store, reopen } = await open(t);
    const odd = 'say "x" \\ \u0000 ü';
    await store.scores.put(P, 't', aScore({ comment: odd, observationId: odd }), 100);
    await store.scores.put(P, 'u', aScore({ value: 'newer', at: T0 + 1 }), 100);
    await store.scores.put(P, 'x'.repeat(65), aScore({ id: 'long' }), 100);
    await store.scores.put('proj_other', 't', aScore(), 100);
    t.match(await store.scores.find(P, 'score-1'), {
      traceId: 'u',
      score: { id: 'score-1', value: 'newer', createdAt: T0 + 1 },
    });
    t.equal(await store.scores.find(P, 'score-2'), undefined);
    t.equal(await store.scores.find(P, 'score-1\0'), undefined, 'an id that no score can have');
    t.equal(await store.scores.remove(P, 'score-1\0'), false);
    t.equal(await store.scores.find(P, 'long'), undefined, 'the key of its trace is a hash');
    t.equal(await store.scores.remove(P, 'score-2'), false);
    t.equal(await store.scores.remove(P, 'score-1'), true);
    t.equal(await store.scores.remove(P, 'long'), true);
    for (const trace of ['t', 'u', 'x'.repeat(65)]) t.same(await store.scores.list(P, trace), []);
    const again = await reopen('crash');
    t.equal(await again.scores.find(P, 'score-1'), undefined);
    t.match(await again.scores.find('proj_other', 'score-1'), { traceId: 't' });
    await again.scores.put(P, 't', aScore({ comment: odd, observationId: odd }), 100);
    t.match(await again.scores.find(P, 'score-1'), {
      traceId: 't',
      score: { comment: odd, observationId: odd },
    });
  });

  t.test('a trace has a bounded number of scores', async (t) => {
    const { store } = await open.shared();
    for (const id of ['a', 'b']) await store.scores.put(P, 't', aScore({ id }), 2);
    t.equal(await store.scores.put(P, 't', aScore({ id: 'c' }), 2), 'full');
    t.match(await store.scores.put(P, 't', aScore({ id: 'b', value: 9 }), 2), { value: 9 });
    t.equal((await store.scores.list(P, 't')).length, 2);
    const ids = Array.from({ length: 8 }, (_, i) => `${i}`);
    await Promise.all(ids.map((id) => store.scores.put(P, 'u', aScore({ id }), 3)));
    t.equal((await store.scores.list(P, 'u')).length, 3, 'also of scores that arrive together');
  });

  t.test(
    'a trace has the newest value of each name, and its own before its observations',
    async (t) => {
      const { store } = await open.shared();
      const score = (id: string, at: number, more: Partial<NewScore>) =>
        store.scores.put(P, 'trace-1', aScore({ id, at, ...more }), 100);
      await score('a', T0, { value: 1 });
      await score('b', T0 + 2, { value: 2 });
      await score('c', T0 + 1, { value: 3 });
      await score('d', T0 + 9, { value: 4, observationId: 'o' });
      await score('e', T0, { name: 'of-observation', value: 'x', observationId: 'o' });
      await score('f', T0, { name: '__proto__', value: true });
      await write(store, 'trace-1');
      const trace = await store.traces.getTrace(P, 'trace-1');
      t.equal(trace?.scores.quality, 2);
      t.equal(trace?.scores['of-observation'], 'x');
      t.same(Object.keys(trace?.scores ?? {}).sort(), ['__proto__', 'of-observation', 'quality']);
      const { items } = await store.traces.listTraces(P, { limit: 1 });
      t.equal(items[0]?.scores.quality, 2);
    },
  );

  t.test('scores go with their trace', async (t) => {
    const { store, clock, finish } = await open(t);
    const [project] = await store.projects.list();
    const projectId = project?.id ?? '';
    await store.projects.update(projectId, { retentionDays: 10 });
    const begun = clock.now();
    const put = (traceId: string, at: number) =>
      store.scores.put(projectId, traceId, aScore({ at }), 100);
    // One trace has more rows than a step of the removal takes.
    await write(store, 'small', { projectId, receivedAt: begun });
    await write(store, 'large', { projectId, receivedAt: begun, count: 1200 });
    await write(store, 'living', { projectId, receivedAt: begun + 5 * DAY });
    for (const id of ['small', 'large', 'living', 'absent']) await put(id, begun);
    await put('late', begun + 5 * DAY);
    clock.set(begun + 10 * DAY);
    await finish();
    for (const id of ['small', 'large', 'living', 'absent', 'late']) {
      t.equal((await store.scores.list(projectId, id)).length, 1, `${id}: exactly as old`);
    }
    clock.set(begun + 10 * DAY + 1);
    for (const id of ['small', 'large', 'absent']) {
      t.same(await store.scores.list(projectId, id), [], `${id}: not shown at once`);
      t.equal((await store.scores.find(projectId, 'score-1'))?.traceId, 'late');
    }
    clock.set(begun + 11 * DAY);
    await finish();
    await store.projects.update(projectId, { retentionDays: 400 });
    for (const id of ['small', 'large', 'absent']) {
      t.same(await store.scores.list(projectId, id), [], `${id}: removed`);
    }
    for (const id of ['living', 'late']) {
      t.equal((await store.scores.list(projectId, id)).length, 1, id);
    }
  });

  t.test('an erasure removes the scores of its traces', async (t) => {
    const { store, finish } = await open(t);
    const [project] = await store.projects.list();
    const projectId = project?.id ?? '';
    await write(store, 'small', { projectId });
    await write(store, 'large', { projectId, count: 1200 });
    await write(store, 'kept', { projectId });
    for (const id of ['small', 'large', 'kept']) {
      await store.scores.put(projectId, id, aScore(), 100);
    }
    const by = { actor: 'admin-token', address: null };
    await store.erasures.request(
      projectId,
      { query: aQuery('id:small,large'), isDryRun: false },
      by,
    );
    await finish();
    for (const id of ['small', 'large']) t.same(await store.scores.list(projectId, id), [], id);
    t.equal((await store.scores.list(projectId, 'kept')).length, 1);
  });

  t.test('a deleted project loses its scores, and takes no more', async (t) => {
    const { store, finish } = await open(t);
    const { id } = await store.projects.create('gone');
    await write(store, 't', { projectId: id });
    for (const trace of ['t', 'absent']) await store.scores.put(id, trace, aScore(), 100);
    await store.projects.delete(id);
    await t.rejects(store.scores.put(id, 't', aScore({ id: 'x' }), 100), {
      code: 'unknown_project',
    });
    await finish();
    for (const trace of ['t', 'absent']) t.same(await store.scores.list(id, trace), []);
  });

  t.test('any order of scores gives the newest one of each id', async (t) => {
    const { store } = await open.shared();
    const value: fc.Arbitrary<ScoreValue> = fc.oneof(
      fc.double({ noNaN: true, noDefaultInfinity: true }).map((number) => number + 0),
      fc.boolean(),
      fc.string({ unit: 'grapheme', maxLength: 9 }),
    );
    const steps = fc.array(fc.record({ id: fc.constantFrom('a', 'b', 'c'), value }), {
      ...{ minLength: 1, maxLength: 9 },
    });
    let run = 0;
    await fc.assert(
      fc.asyncProperty(steps, async (steps) => {
        run++;
        const expected = new Map<string, ScoreValue>();
        for (const [i, { id, value }] of steps.entries()) {
          await store.scores.put(P, `r${run}`, aScore({ id, value, name: id, at: T0 + i }), 100);
          expected.set(id, value);
        }
        const stored = await store.scores.list(P, `r${run}`);
        t.same(new Map(stored.map(({ id, value }) => [id, value])), expected);
      }),
      { numRuns: 30 },
    );
  });
}
