import type { Test } from 'tap';
import { fillPlaces, observationJson } from '../../src/store/observation-json.ts';
import { SEARCHED_TRACES } from '../../src/store/rows/trace-page.ts';
import type { StoredObservation } from '../../src/store/store.ts';
import { anObservation, testProject as P } from '../helper/batches.ts';
import { aQuery } from '../helper/query.ts';
import type { OpenStore } from './place.ts';
import { T0, write } from './writing.ts';

/** The rules for lists of traces and observations. */
export function listings(t: Test, open: OpenStore): void {
  const at = (ms: number, ns = 0) => ({ ms: T0 + ms, ns });

  t.test('sums the observations of a trace', async (t) => {
    const { store } = await open.shared();
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
    const { store } = await open.shared();
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
    const { store } = await open.shared();
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
      const { store } = await open.shared();
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
    const failure = { message: 'm', type: 'T', stacktrace: null };
    await write(store, [
      anObservation({ id: 'root', startTime: at(0), kind: 'chain', details, sessionId: 's' }),
      anObservation({ id: 'b', parentId: 'root', startTime: at(2), usage: { input_tokens: 1 } }),
      anObservation({
        id: 'a',
        parentId: 'root',
        startTime: at(1),
        status: 'error',
        error: failure,
      }),
    ]);
    // A second event, so that fields have winners of their own.
    await write(store, [anObservation({ id: 'b', startTime: at(2), model: 'm', version: '1' })]);
    const read = (cursor?: string, hasText = true) =>
      store.traces.listTree(P, 'trace-1', { limit: 2, hasText, ...(cursor && { cursor }) });
    const first = await read();
    const last = await read(first.nextCursor ?? '');
    t.equal(last.nextCursor, null);
    const shown = [first, last].flatMap(({ text, nodes }): Record<string, unknown>[] => {
      fillPlaces(
        text,
        nodes.map(({ id }) => ({ counted: id === 'b', costCounted: id === 'a', cycle: false })),
      );
      return JSON.parse(`[${text.toString()}]`);
    });
    const page = await store.traces.listObservations(P, 'trace-1', { limit: 9 });
    const listed = page.items.map((one) => JSON.parse(observationJson(one, undefined)));
    t.same(
      shown.map(({ id }) => id),
      ['root', 'a', 'b'],
    );
    for (const [i, one] of shown.entries()) {
      const { counted, cost_counted, cycle, input_bytes, output_bytes, error, ...same } = one;
      t.match(listed[i], same);
      t.match([counted, cost_counted, cycle], [one.id === 'b', one.id === 'a', false]);
      t.equal(output_bytes, null);
      t.equal(input_bytes, one.id === 'root' ? details.inputBytes : null);
      t.same(error, one.id === 'a' ? { type: failure.type, message: failure.message } : null);
    }
    const nodes = page.items.map(({ id, parentId, startTime, endTime, model, usage }) => {
      const start = startTime === null ? null : startTime.ms + startTime.ns / 1e6;
      const end = endTime === null ? null : endTime.ms + endTime.ns / 1e6;
      const of = { scope: null, responseId: null, usage: null, cost: null };
      // A node that brings nothing to the totals has its place only.
      return usage === null
        ? { id, parentId, start, end: null, model: null, ...of }
        : { id, parentId, start, end, model, ...of, usage };
    });
    t.same([...first.nodes, ...last.nodes], nodes);
    const bare = await read(undefined, false);
    t.match(bare, { nextCursor: first.nextCursor, nodes: first.nodes });
    t.equal(bare.text.length, 0);
    const none = { nodes: [], nextCursor: null };
    const asked = { limit: 1, hasText: true };
    t.match(await store.traces.listTree(P, 'none', asked), none);
    t.match(await store.traces.listTree('proj_other', 'trace-1', asked), none);
  });

  t.test('a step of a search looks at 512 traces, and the next one behind them', async (t) => {
    const { store } = await open.shared();
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
    const { store } = await open.shared();
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
    const { store } = await open.shared();
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
