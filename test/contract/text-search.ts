import fc from 'fast-check';
import type { Test } from 'tap';
import { observe } from '../../src/model/formats.ts';
import type { Query } from '../../src/query/query.ts';
import type { CountedField } from '../../src/store/rows/observed-values.ts';
import { textOfJson } from '../../src/store/search/json-text.ts';
import { progressOf } from '../../src/store/search/status.ts';
import { firstWords, lineOfWords, wordsOf } from '../../src/store/search/words.ts';
import type { Store } from '../../src/store/store.ts';
import { aTenant, nativeBatch, testProject as P } from '../helper/batches.ts';
import type { FakeClock } from '../helper/clock.ts';
import { aQuery, textQuery } from '../helper/query.ts';

/** A store whose payload search can be turned on, changed and turned off between two openings. */
export type SearchPlace = {
  readonly clock: FakeClock;
  open(config?: object): Promise<OpenSearchPlace>;
};
type OpenSearchPlace = {
  readonly store: Store;
  close(): Promise<void>;
  crash(): Promise<void>;
  finish(): Promise<void>;
};

const T0 = Date.UTC(2026, 0, 15, 12);
const ON = { search: { payloads: '4KiB' } };

type Event = Readonly<Record<string, unknown>> & { readonly trace_id: string };

let version = 0;

function event(trace: string, more: Record<string, unknown> = {}): Event {
  version++;
  return {
    ...{ id: `${trace}-root`, trace_id: trace, operation: 'finish', kind: 'generation' },
    ...{ name: 'chat', version, start_time: new Date(T0 + version * 1000).toISOString() },
    ...more,
  };
}

async function write(store: Store, events: readonly Event[], projectId = P): Promise<void> {
  const source = nativeBatch(events, { receivedAt: T0, tenant: aTenant({ projectId }) });
  await store.traces.write({ kind: 'observations', source, observations: observe(source) });
}

/** The ids of all traces that a query finds, sorted. */
async function found(
  store: Store,
  query: string | Query,
  { size, projectId = P }: { size?: number; projectId?: string } = {},
): Promise<string[]> {
  const asked = typeof query === 'string' ? aQuery(query, T0) : query;
  const ids: string[] = [];
  let cursor: string | undefined;
  do {
    const page = await store.traces.listTraces(projectId, {
      ...{ limit: 3, query: asked },
      ...(cursor === undefined ? {} : { cursor }),
      ...(size === undefined ? {} : { size }),
    });
    ids.push(...page.items.map(({ id }) => id));
    cursor = page.nextCursor ?? undefined;
  } while (cursor !== undefined);
  return ids.sort();
}

/** The rules for text search in payloads. */
export function textSearch(t: Test, place: (t: Test) => Promise<SearchPlace>): void {
  const opening = async (t: Test, config: object = ON) => {
    const at = await place(t);
    let opened = await at.open(config);
    t.teardown(() => opened.close());
    return {
      clock: at.clock,
      store: opened.store,
      finish: () => opened.finish(),
      async reopen(next: object = ON, how: 'close' | 'crash' = 'close') {
        await opened[how]();
        opened = await at.open(next);
        return opened.store;
      },
    };
  };

  t.test('words and phrases find the text inside inputs and outputs', async (t) => {
    const { store, finish } = await opening(t);
    await write(store, [
      event('a', {
        inputs: { messages: [{ role: 'user', content: 'What is your Refund-Policy?' }] },
        outputs: { answer: 'Thirty days', score: 12345 },
      }),
      event('b', { inputs: 'policy of refunds', outputs: ['refund', 'policy'] }),
      event('c', { name: 'refund', inputs: null }),
      event('d', { inputs: '返品について', outputs: JSON.stringify({ note: 'nested words' }) }),
    ]);
    await write(store, [event('other', { inputs: 'refund' })], 'proj_other');
    await finish();
    t.match(await store.search.status(), { state: 'ready', payloadBytes: 4096, waiting: 0 });
    for (const [query, expected] of Object.entries({
      refund: 'a b c',
      REFUND: 'a b c',
      '"refund policy"': 'a b',
      'refund-policy': 'a b',
      refunds: 'b',
      // A payload is searched for whole words, a name for any part.
      fund: 'c',
      thirty: 'a',
      'thirty days': 'a',
      '"days thirty"': '',
      // Between inputs and outputs is no phrase.
      '"refunds refund"': '',
      user: 'a',
      // No keys, no numbers.
      messages: '',
      '12345': '',
      '-refund': 'd',
      'refund -thirty': 'b c',
      返品: 'd',
      返: 'd',
      '"nested words"': 'd',
      note: '',
      '?!': '',
      'refund name:chat': 'a b',
      chat: 'a b d',
    })) {
      t.same(await found(store, query), expected.split(' ').filter(Boolean), query);
    }
  });

  t.test('without the option, payloads are not searched', async (t) => {
    const { store, finish } = await opening(t, {});
    await write(store, [event('a', { inputs: 'refund', name: 'asking' })]);
    await finish();
    t.same(await found(store, 'refund'), []);
    t.same(await found(store, 'ask'), ['a']);
    t.match(await store.search.status(), { state: 'off', payloadBytes: null });
  });

  t.test('the first bytes of each field are searched', async (t) => {
    const { store, finish } = await opening(t, { search: { payloads: 256 } });
    const before = 'x'.repeat(248);
    await write(store, [
      event('exact', { inputs: `${before} sevenly` }),
      event('past', { inputs: `${before}x sevenly` }),
      event('cut', { inputs: `${before} sevenlyx` }),
      event('output', { inputs: 'y'.repeat(1000), outputs: 'sevenly' }),
    ]);
    await finish();
    t.same(await found(store, 'sevenly'), ['exact', 'output']);
    t.same(await found(store, 'sevenlyx'), []);
  });

  t.test('every reader of a query finds the text inside of payloads', async (t) => {
    const { store, finish } = await opening(t);
    const metadata = { session_id: 's', user_id: 'u' };
    await write(store, [
      event('a', { inputs: 'refund', custom_fields: { env: 'prod' }, metadata }),
      event('b', { outputs: 'refunds', custom_fields: { env: 'dev' }, metadata }),
    ]);
    await finish();
    const query = aQuery('refund', T0);
    const values = async (field: CountedField) =>
      (await store.traces.countValues(P, field, { limit: 10, query })).items;
    t.same(await values('custom.env'), [['prod', 1]]);
    t.same(await values('span'), [['chat', 1]]);
    t.same(await values('source'), [['native', 1]]);
    const matching = await store.traces.findMatching(P, query, ['a', 'b']);
    t.same(
      matching.map(({ id }) => id),
      ['a'],
    );
    for (const by of ['session', 'user'] as const) {
      const look = { query, by, limit: 10, size: 10, after: null };
      t.match((await store.groups.findGroups(P, look)).groups.length, 1);
      const sums = await store.groups.sumGroup(P, by.slice(0, 1), look);
      t.match(sums.sums, { traces: 1 });
    }
    const ranked = await store.ranks.rankTraces(P, {
      ...{ by: 'tokens', isAscending: false, query, limit: 10, size: 10 },
      ...{ after: null, until: null, behind: null, before: null },
    });
    t.equal(ranked.traces.length, 1);
  });

  t.test('turning it on indexes what is stored, also after a crash', async (t) => {
    const { store, finish, reopen } = await opening(t, {});
    for (let i = 0; i < 5; i++) {
      const events = Array.from({ length: 90 }, (_, k) =>
        event(`t${i}-${Math.floor(k / 30)}`, { id: `o${i}-${k}`, inputs: `common word${i}` }),
      );
      await write(store, events);
    }
    await finish();
    const turnedOn = await reopen();
    t.match(await turnedOn.search.status(), { state: 'indexing', payloadBytes: 4096 });
    const late = event('late', { inputs: 'common late' });
    await write(turnedOn, [late]);
    const crashed = await reopen(ON, 'crash');
    t.match(await crashed.search.status(), { state: 'indexing' });
    await finish();
    const status = await crashed.search.status();
    t.match(status, { state: 'ready', waiting: 0 });
    t.ok(status.indexed >= 450 && status.stored >= 450);
    t.equal(progressOf(status), 1);
    t.equal((await found(crashed, 'common')).length, 16);
    t.same(await found(crashed, 'word3'), ['t3-0', 't3-1', 't3-2']);
    t.same(await found(crashed, 'late'), ['late']);
    const again = await reopen();
    t.match(await again.search.status(), { state: 'ready' });
    t.same(await found(again, 'late'), ['late']);
  });

  t.test('another size makes the index again, and turning it off removes it', async (t) => {
    const { store, finish, reopen } = await opening(t);
    await write(store, [event('a', { inputs: `${'x'.repeat(300)} behind` })]);
    await finish();
    t.same(await found(store, 'behind'), ['a']);
    const smaller = await reopen({ search: { payloads: 256 } });
    await finish();
    t.match(await smaller.search.status(), { state: 'ready', payloadBytes: 256 });
    t.same(await found(smaller, 'behind'), []);
    const off = await reopen({});
    await write(off, [event('b', { inputs: 'behind' })]);
    await finish();
    t.same(await found(off, 'behind'), []);
    const on = await reopen();
    await finish();
    t.same(
      await found(on, 'behind'),
      ['a', 'b'],
      'with the rows that were written without the option',
    );
  });

  t.test('the text of an observation follows its merges and moves', async (t) => {
    const { store, finish } = await opening(t);
    await write(store, [event('a', { operation: 'start', inputs: 'first question' })]);
    await finish();
    await write(store, [event('a', { inputs: 'second question', outputs: 'reply' })]);
    await finish();
    t.same(await found(store, 'first'), []);
    t.same(await found(store, '"second question" reply'), ['a']);
    await write(store, [event('a', { name: 'renamed' })]);
    await finish();
    t.same(await found(store, 'renamed reply'), ['a']);
    t.same(await found(store, 'chat'), []);
  });

  t.test('removed traces lose their text', async (t) => {
    const { store, finish, clock } = await opening(t);
    const { id: projectId } = await store.projects.create('short');
    const events = ['keep', 'gone'].map((trace) => event(trace, { inputs: 'canary' }));
    await write(store, events, projectId);
    await finish();
    const request = { query: aQuery('id:gone'), isDryRun: false };
    const by = { actor: 'test', address: null };
    const { id } = await store.erasures.request(projectId, request, by);
    await finish();
    t.equal((await store.erasures.get(projectId, id))?.state, 'done');
    t.same(await found(store, 'canary', { projectId }), ['keep']);
    await store.projects.update(projectId, { retentionDays: 1 });
    clock.set(clock.now() + 3 * 86_400_000);
    await finish();
    await finish();
    t.match(await store.search.status(), { state: 'ready', waiting: 0 });
    t.same(await found(store, 'canary', { projectId }), []);
  });

  t.test('a rare word leads: one step finds it among many traces', async (t) => {
    const { store, finish } = await opening(t);
    const words = Array.from({ length: 60 }, (_, i) =>
      event(`t${i}`, { inputs: `common ${i === 7 ? 'needle' : 'hay'}` }),
    );
    await write(store, words);
    await finish();
    const filter = { limit: 10, query: aQuery('needle'), size: 4 };
    const page = await store.traces.listTraces(P, filter);
    t.same(
      page.items.map(({ id }) => id),
      ['t7'],
    );
    t.equal(page.nextCursor, null);
    t.same(await found(store, 'common -hay', { size: 4 }), ['t7']);
    t.equal((await found(store, 'common', { size: 4 })).length, 60);
    await write(store, [event('new', { name: 'a needle' })]);
    t.same(await found(store, 'needle', { size: 4 }), ['new', 't7'], 'before it is in the index');
  });

  t.test('finds what a scan of the payloads finds', async (t) => {
    const { store, finish } = await opening(t, { search: { payloads: 256 } });
    const word = fc.constantFrom('alpha', 'Beta', 'gamma-ray', 'ünï', '東京', 'x', 'alpha beta');
    const text = fc.array(word, { maxLength: 60 }).map((words) => words.join(' '));
    const value = fc.oneof(
      text,
      fc.array(text, { maxLength: 3 }),
      fc.dictionary(fc.constantFrom('alpha', 'k'), fc.oneof(text, fc.integer()), { maxKeys: 2 }),
      text.map((one) => JSON.stringify({ one })),
    );
    const events = fc.array(
      fc.record({
        trace: fc.integer({ max: 12, min: 0 }),
        id: fc.nat(2),
        inputs: value,
        outputs: value,
      }),
      { minLength: 40, maxLength: 40 },
    );
    const [drawn = []] = fc.sample(events, { numRuns: 1, seed: 21 });
    const lines = new Map<string, string[]>();
    for (const { trace, id, inputs, outputs } of drawn) {
      await write(store, [
        event(`t${trace}`, { id: `t${trace}-${id}`, name: 'n', inputs, outputs }),
      ]);
      lines.set(`t${trace} ${id}`, [inputs, outputs].map(scanned));
      if (id === 1) await finish();
    }
    await finish();
    for (const query of [
      'alpha',
      '"alpha beta"',
      'gamma',
      '東',
      '"beta x"',
      'ÜNÏ x',
      'none',
      '-alpha',
    ]) {
      const parsed = aQuery(query);
      const traces = new Set([...lines.keys()].map((key) => key.split(' ')[0] ?? ''));
      const expected = [...traces].filter((trace) =>
        parsed.terms.every((term) => {
          if (term.type !== 'text') return false;
          const phrase = lineOfWords(wordsOf(term.text));
          const holds = [...lines].some(
            ([key, texts]) =>
              key.startsWith(`${trace} `) && texts.some((line) => line.includes(phrase)),
          );
          return holds !== term.negated;
        }),
      );
      t.same(await found(store, query), expected.sort(), query);
    }
    t.same(await found(store, textQuery('alpha\nbeta')), await found(store, '"alpha beta"'));
  });
}

function scanned(value: unknown): string {
  return lineOfWords(firstWords(textOfJson(JSON.stringify(value), 256), 256));
}
