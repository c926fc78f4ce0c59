import fc from 'fast-check';
import type { Test } from 'tap';
import type { Observation } from '../../src/model/observation.ts';
import { parseQuery } from '../../src/query/parse.ts';
import type { Query } from '../../src/query/query.ts';
import { RANK_FIELDS } from '../../src/store/ranking.ts';
import { MAX_TERMS } from '../../src/store/rows/trace-terms.ts';
import type { ScoreValue } from '../../src/store/scores.ts';
import type { Store } from '../../src/store/store.ts';
import { anObservation, aTenant, nativeBatch, testProject as P } from '../helper/batches.ts';
import type { FakeClock } from '../helper/clock.ts';
import { textQuery } from '../helper/query.ts';
import type { SharesStore } from './place.ts';
import type { KnownTrace } from './query-oracle.ts';
import { matches } from './query-oracle.ts';
import { RANK_VALUES, sortedIds } from './ranks.ts';

export type OpenForQueries = SharesStore &
  ((t: Test) => Promise<{ readonly clock: FakeClock; readonly store: Store }>);

const T0 = Date.UTC(2026, 0, 15, 12);
const at = (ms: number, ns = 0) => ({ ms: T0 + ms, ns });

async function write(
  store: Store,
  list: readonly Observation[],
  projectId = P,
  receivedAt = T0,
): Promise<void> {
  const observations = list.map((observation, index) => ({ ...observation, index }));
  const source = nativeBatch(list.length, { receivedAt, tenant: aTenant({ projectId }) });
  await store.traces.write({ kind: 'observations', source, observations });
}

async function score(
  store: Store,
  traceId: string,
  values: Readonly<Record<string, ScoreValue>>,
  observationId: string | null = null,
): Promise<void> {
  for (const [name, value] of Object.entries(values)) {
    const id = `${name}-${observationId}`;
    const about = { id, observationId, name, value, comment: null, source: null, at: T0 };
    await store.scores.put(P, traceId, about, 100);
  }
}

/** The ids of all traces that match, in the order of the listing; a page may be empty. */
async function found(store: Store, query: Query, more: object = {}): Promise<string[]> {
  const ids: string[] = [];
  let cursor: string | undefined;
  do {
    const filter = { limit: 3, query, ...more, ...(cursor === undefined ? {} : { cursor }) };
    const page = await store.traces.listTraces(P, filter);
    ids.push(...page.items.map(({ id }) => id));
    cursor = page.nextCursor ?? undefined;
  } while (cursor !== undefined);
  return ids;
}

/** The queries of the reading side, which both stores execute. */
export function queries(t: Test, open: OpenForQueries): void {
  t.test('each field finds the traces that have the value', async (t) => {
    const { store, clock } = await open(t);
    const now = aged(clock);
    await write(store, examples(now), P, now);
    await write(store, [anObservation({ traceId: 'other', id: 'x' })], 'proj_other');
    await score(store, 'chat', { quality: 0.9, verdict: 'good', ok: true });
    await score(store, 'tools', { quality: -2, verdict: '1', ok: false });
    await score(store, 'tools', { quality: 0.1 }, 'tools-named');
    await score(store, 'open', { 'a b': 'x' });
    for (const [text, expected] of GOLDEN) {
      const ids = await found(store, parseQuery(text, at(0)));
      t.same(ids.sort(), expected.split(' ').filter(Boolean), text);
    }
  });

  t.test('text that means something in SQL, JSON or patterns is text', async (t) => {
    const { store } = await open.shared();
    const odd = ['100%', 'a_c', 'abc', "it's", 'say "hi"', 'back\\slash', '{"env":"x"}', 'é', '\n'];
    await write(
      store,
      odd.map((text, i) =>
        anObservation({
          ...{ traceId: `t${i}`, id: `o${i}`, name: 'n', model: text, sessionId: text },
          customFields: { [text]: text },
          details: { provider: text, tags: [text, `,"${text}`] },
        }),
      ),
    );
    const about = { key: null, negated: false, position: 0 } as const;
    for (const [i, text] of odd.entries()) {
      const values = [{ text, isPrefix: false }];
      for (const field of ['model', 'session', 'provider', 'tag'] as const) {
        const query = { terms: [{ ...about, type: 'values' as const, field, values }] };
        t.same(await found(store, query), [`t${i}`], `${field} ${text}`);
      }
      const custom = { ...about, type: 'values' as const, field: 'custom' as const, key: text };
      t.same(await found(store, { terms: [{ ...custom, values }] }), [`t${i}`], `custom ${text}`);
      t.ok((await found(store, textQuery(text))).includes(`t${i}`), `text ${text}`);
    }
    t.same(await found(store, textQuery('a_c')), ['t1'], 'no pattern');
    t.same(await found(store, textQuery('%')), ['t0']);
  });

  t.test('a text does not end at NUL, in any field', async (t) => {
    const { store } = await open.shared();
    const none = { name: null, model: null, error: null, customFields: null } as const;
    const fields: Readonly<Record<string, (text: string) => Partial<Observation>>> = {
      name: (name) => ({ name }),
      model: (model) => ({ model }),
      message: (message) => ({ error: { message, type: null, stacktrace: null } }),
      custom: (text) => ({ customFields: { k: text } }),
    };
    const all = Object.entries(fields).flatMap(([field, of]) =>
      ['one\u0000Two', 'one', 'two'].map((text, i) =>
        anObservation({
          ...{ traceId: `${field}-${i}`, id: `${field}-${i}`, startTime: at(0) },
          ...none,
          ...of(text),
        }),
      ),
    );
    await write(store, all);
    for (const [text, wanted] of [
      ['one\u0000', [0]],
      ['\u0000tW', [0]],
      ['E\u0000T', [0]],
      ['TWO', [0, 2]],
      ['\u0000w', []],
    ] as const) {
      const expected = Object.keys(fields).flatMap((field) => wanted.map((i) => `${field}-${i}`));
      t.same((await found(store, textQuery(text))).sort(), expected.sort(), JSON.stringify(text));
    }
  });

  t.test('finds what a plain evaluator finds', async (t) => {
    const { store, clock } = await open(t);
    const now = aged(clock);
    const written = [...fc.sample(someTraces(now), { numRuns: 60, seed: 13 }), largeTrace()];
    const known = new Map<string, readonly Observation[]>();
    for (const [i, observations] of written.entries()) {
      const traceId = `${i % 2 === 0 ? 'a' : 'b'}${i}`;
      known.set(
        traceId,
        observations.map((one) => ({ ...one, traceId })),
      );
      await write(store, known.get(traceId) ?? [], P, now);
      const [x] = fc.sample(fc.constantFrom(1, 0.5, -3, 'good', '', true, false), {
        ...{ numRuns: 1, seed: i },
      });
      if (i % 3 > 0 && x !== undefined) await score(store, traceId, { x });
    }
    const traces: KnownTrace[] = [];
    for (const [id, observations] of known) {
      const trace = await store.traces.getTrace(P, id);
      if (trace === undefined) throw new Error(`${id} was not written`);
      traces.push({ trace, observations, at: trace.startTime ?? { ms: now, ns: 0 } });
    }
    const size = fc.integer({ min: 1, max: 80 });
    const field = fc.constantFrom(...RANK_FIELDS);
    await fc.assert(
      fc.asyncProperty(
        someQuery(),
        size,
        fc.boolean(),
        field,
        async (text, size, isAscending, by) => {
          const query = parseQuery(text, at(0));
          const expected = traces.filter((one) => matches(query, one)).map(({ trace }) => trace.id);
          const ids = await found(store, query, { size, isAscending });
          t.same([...ids].sort(), expected.sort(), text);
          const every = `${text} start:>=1970-01-01`;
          const order = { by, isAscending, text: every, limit: 40, size };
          const sorted = await sortedIds(store, order);
          t.same([...sorted].sort(), expected, `${by} ${text}`);
          const values = sorted.flatMap((id) => traces.find(({ trace }) => trace.id === id) ?? []);
          const last = isAscending ? Number.MAX_VALUE : -1;
          const ranks = values.map(({ trace }) => RANK_VALUES[by](trace) ?? last);
          t.same(
            ranks,
            ranks.toSorted((a, b) => (isAscending ? a - b : b - a)),
            `${by} ${text}`,
          );
        },
      ),
      { numRuns: 250 },
    );
  });
}

/** Advances the clock so far that traces of `T0` without an end are interrupted. Returns the time. */
function aged(clock: FakeClock): number {
  clock.advance(Math.max(0, T0 + 3 * 24 * 3_600_000 - clock.now()));
  return clock.now();
}

/** Traces of the golden queries. */
function examples(now: number): Observation[] {
  const later = { ms: now, ns: 0 };
  return [
    anObservation({
      ...{ traceId: 'chat', id: 'chat-root', name: 'chat', kind: 'chain', sessionId: 's1' },
      ...{ userId: 'Jane Doe', startTime: at(0), endTime: at(2500), status: 'success' },
      customFields: { env: 'prod', 'a key': 'v' },
      details: { environment: 'production', release: 'r1', tags: ['alpha', 'beta'] },
    }),
    anObservation({
      ...{ traceId: 'chat', id: 'chat-llm', parentId: 'chat-root', name: 'call', kind: 'llm' },
      ...{ model: 'gpt-4o-mini', startTime: at(10), endTime: at(900), status: 'error' },
      usage: { input_tokens: 100, output_tokens: 20 },
      error: { message: 'context length exceeded', type: 'LengthError', stacktrace: null },
      details: {
        ...{ provider: 'openai', promptName: 'greeting', ttftMs: 40 },
        cost: { input: null, output: null, total: 10_000_000, source: 'sent' },
      },
    }),
    anObservation({
      ...{ traceId: 'tools', id: 'tools-root', name: 'lookup', kind: 'tool', startTime: at(1000) },
      ...{ endTime: null, ended: false, status: 'running', sessionId: 's2' },
      customFields: { env: 'dev' },
    }),
    anObservation({
      ...{ traceId: 'tools', id: 'tools-named', parentId: 'tools-root', name: 'x', kind: 'tool' },
      ...{ startTime: at(1001), endTime: at(1002), details: { tool: 'search', tags: ['beta-2'] } },
    }),
    anObservation({
      ...{ traceId: 'bare', id: 'bare-root', name: null, kind: null, status: null },
      ...{ startTime: null, endTime: null, ended: false, customFields: null },
    }),
    anObservation({
      ...{ traceId: 'open', id: 'open-root', name: 'Open', status: 'running', ended: false },
      ...{ startTime: later, endTime: null, sessionId: 's1', userId: 'u2', customFields: null },
    }),
  ];
}

/** Queries, and the ids that they find among `examples`. */
const GOLDEN: readonly (readonly [query: string, ids: string])[] = [
  ['', 'bare chat open tools'],
  ['id:chat', 'chat'],
  ['id:c*,to*', 'chat tools'],
  ['name:chat', 'chat'],
  ['name:Chat', ''],
  ['name:c*', 'chat'],
  ['-name:chat', 'bare open tools'],
  ['-has:name', 'bare'],
  ['status:running', 'open tools'],
  ['status:running,success', 'chat open tools'],
  ['-status:running', 'bare chat'],
  ['has:status', 'chat open tools'],
  ['state:finished', 'chat'],
  ['state:error', ''],
  ['state:interrupted', 'tools'],
  ['state:running', 'bare open'],
  ['-state:running', 'chat tools'],
  ['has:error', 'chat'],
  ['has:error status:error', ''],
  ['-has:error', 'bare open tools'],
  ['start:>=2026-01-15T12:00:01Z -has:user', 'bare tools'],
  ['start:2026-01-15 id:chat,tools', 'chat tools'],
  ['start:<2026-01-15T12:00Z', ''],
  ['start:2026-01-15T12:00:00Z,2026-01-15T12:00:01Z', 'chat tools'],
  ['-start:2026-01-15T12:00:00Z,2026-01-15T12:00:01Z', 'bare open'],
  ['-has:start', 'bare'],
  ['latency:2.5s', 'chat'],
  ['latency:>2500ms', ''],
  ['latency:>=2500ms', 'chat'],
  ['latency:1s..3s', 'chat'],
  ['-latency:>1s', 'bare open tools'],
  ['ttft:50ms', 'chat'],
  ['cost:0.01', 'chat'],
  ['cost:>0.01', ''],
  ['cost:<0.01', ''],
  ['has:cost', 'chat'],
  ['tokens:120', 'chat'],
  ['input_tokens:>=100 output_tokens:<=20', 'chat'],
  ['output_tokens:>20', ''],
  ['observations:1', 'bare open'],
  ['observations:>1', 'chat tools'],
  ['session:s1', 'chat open'],
  ['session:s1,s2', 'chat open tools'],
  ['session:s*', 'chat open tools'],
  ['session:s1 user:u2', 'open'],
  ['session:s1 -user:u2', 'chat'],
  ['-session:s1', 'bare tools'],
  ['user:"Jane Doe"', 'chat'],
  ['user:"Jane "*', 'chat'],
  ['-has:user', 'bare tools'],
  ['source:native', 'bare chat open tools'],
  ['source:otlp', ''],
  ['key:key_test has:session', 'chat open tools'],
  ['environment:production', 'chat'],
  ['release:r1', 'chat'],
  ['tag:beta', 'chat'],
  ['tag:beta*', 'chat tools'],
  ['-tag:beta', 'bare open tools'],
  ['has:tag', 'chat tools'],
  ['custom.env:prod', 'chat'],
  ['custom.env:p*,d*', 'chat tools'],
  ['custom."a key":v', 'chat'],
  ['has:custom', 'chat tools'],
  ['has:custom.env', 'chat tools'],
  ['-has:custom.env', 'bare open'],
  ['-custom.env:prod', 'bare open tools'],
  ['score.quality:>0.8', 'chat'],
  ['score.quality:>0.9', ''],
  ['score.quality:0.9', 'chat'],
  ['score.quality:0..1', 'chat tools'],
  ['score.quality:<0.5', 'tools'],
  ['-score.quality:<0.5', 'bare chat open'],
  ['score.quality:good', ''],
  ['score.verdict:good', 'chat'],
  ['score.verdict:"1"', 'tools'],
  ['score.verdict:1', ''],
  ['score.verdict:go*', 'chat'],
  ['score.verdict:"go"', ''],
  ['score.ok:true', 'chat'],
  ['score.ok:false,true', 'chat tools'],
  ['score."a b":x', 'open'],
  ['has:score', 'chat open tools'],
  ['has:score.verdict', 'chat tools'],
  ['-has:score.verdict', 'bare open'],
  ['span:call', 'chat'],
  ['kind:tool', 'tools'],
  ['kind:llm,tool', 'chat tools'],
  ['has:kind', 'chat open tools'],
  ['model:gpt-4o*', 'chat'],
  ['model:gpt-4o', ''],
  ['-has:model', 'bare open tools'],
  ['provider:openai', 'chat'],
  ['provider:open*', 'chat'],
  ['prompt:greeting', 'chat'],
  ['error:LengthError', 'chat'],
  ['error:Length*', 'chat'],
  ['error:length*', ''],
  ['tool:search', 'tools'],
  ['tool:lookup', 'tools'],
  ['tool:x', ''],
  ['has:tool', 'tools'],
  ['"context length"', 'chat'],
  ['CONTEXT gpt', 'chat'],
  ['LengthError', ''],
  ['message', ''],
  ['PROD', 'chat'],
  ['-chat', 'bare open tools'],
  ['tools-n', 'tools'],
  ['ools', ''],
];

const NAMES = ['plan', 'Plan b', 'b', 'say "x"'];
const maybe = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: null });

function someTraces(now: number): fc.Arbitrary<Observation[]> {
  const time = fc.oneof(
    fc.integer({ min: 0, max: 5_000 }).map((ms) => at(ms, ms)),
    fc.constant({ ms: now, ns: 0 }),
  );
  const detail = <T>(...values: T[]) => fc.constantFrom(undefined, ...values);
  const details = fc
    .record({
      provider: detail('p', 'pq'),
      environment: detail('e', 'eq'),
      release: detail('r1', 'r2'),
      tags: detail(['x'], ['x', 'xy'], ['a,"b']),
      promptName: detail('p', 'pn'),
      tool: detail('b', 'hammer'),
      ttftMs: detail(1, 20),
      cost: detail(...[1, 10_000_000, 250_000_000].map((total) => costOf(total))),
    })
    .map((all) => Object.fromEntries(Object.entries(all).filter(([, one]) => one !== undefined)));
  const observation = fc.record({
    name: maybe(fc.constantFrom(...NAMES)),
    kind: maybe(fc.constantFrom('llm' as const, 'tool' as const)),
    status: maybe(fc.constantFrom('running' as const, 'error' as const, 'ok' as const)),
    startTime: maybe(time),
    endTime: maybe(time),
    ended: fc.boolean(),
    model: maybe(fc.constantFrom('gpt', 'gpt-4')),
    usage: maybe(fc.record({ input_tokens: fc.nat(3), output_tokens: fc.nat(3) })),
    sessionId: maybe(fc.constantFrom('s', 's2')),
    userId: maybe(fc.constantFrom('u', 'Jane Doe')),
    error: maybe(fc.constantFrom(errorOf('E', 'bad "x"'), errorOf('Err', 'PLAN'), errorOf(null))),
    customFields: maybe(fc.constantFrom({ k: 'v' }, { k: 'vw', b: 'x' }, { 'a b': 'say "x"' })),
    details: maybe(details),
  });
  return fc
    .array(observation, { minLength: 1, maxLength: 4 })
    .map((list) =>
      list.map((fields, i) =>
        anObservation({ ...fields, id: `o${i}`, parentId: i === 0 ? null : 'o0' }),
      ),
    );
}

/** A trace with more terms than are indexed. */
function largeTrace(): Observation[] {
  return Array.from({ length: MAX_TERMS + 6 }, (_, i) =>
    anObservation({
      ...{ id: `o${i}`, parentId: i === 0 ? null : 'o0', name: `many${i}`, model: 'gpt' },
      ...{ kind: 'tool', startTime: at(i), endTime: at(i + 1), sessionId: 's2' },
    }),
  );
}

function costOf(total: number) {
  return { input: null, output: null, total, source: 'sent' as const };
}

function errorOf(type: string | null, message: string | null = null) {
  return { type, message, stacktrace: null };
}

function someQuery(): fc.Arbitrary<string> {
  const texts = fc.constantFrom(
    ...['name:plan', 'name:P*', 'name:"say \\"x\\""', 'span:b', 'span:"Plan b",plan', 'has:name'],
    ...['status:error', 'status:ok,running', 'has:status', 'kind:llm', 'kind:tool', 'has:kind'],
    ...['state:running', 'state:error', 'state:finished', 'state:interrupted', 'has:error'],
    ...['model:gpt', 'model:gpt*', 'has:model', 'provider:p', 'provider:p*', 'has:provider'],
    ...['session:s', 'session:s*', 'session:s,s2', 'has:session', 'user:u', 'user:"Jane Doe"'],
    ...['environment:e', 'environment:e*', 'release:r1', 'has:release', 'prompt:p', 'prompt:p*'],
    ...['tag:x', 'tag:x*', 'tag:"a,\\"b"', 'tag:b', 'has:tag', 'tool:b', 'tool:ham*', 'has:tool'],
    ...['custom.k:v', 'custom.k:v*', 'custom.b:x', 'has:custom', 'has:custom.b'],
    ...['error:E', 'error:E*', 'has:prompt', 'source:native', 'source:otlp', 'id:a*', 'id:b1'],
    ...['plan', 'GPT', 'bad', '"say \\"x\\""', 'o1', 'a', 'v', 'start:>=2026-01-15T12:00:02Z'],
    ...['start:2026-01-15T12:00:00Z..2026-01-15T12:00:03Z', 'has:start', 'has:latency'],
    ...['start:2026-01-15T12:00:00Z,2026-01-15T12:00:03Z', 'latency:>1s', 'latency:0ms..2s'],
    ...['ttft:<1s', 'has:ttft', 'cost:0.01', 'cost:>=0.01', 'cost:<0.25', 'has:cost', 'tokens:3'],
    ...['tokens:>2', 'input_tokens:1..2', 'output_tokens:<2', 'observations:2', 'observations:>2'],
    ...['score.x:1', 'score.x:>0', 'score.x:0..1', 'score.x:good', 'score.x:g*', 'score.x:true'],
    ...[
      'score.x:false,good',
      'score.y:1',
      'has:score',
      'has:score.x',
      'has:tokens',
      'has:id',
      'has:state',
    ],
    'span:many7,many69',
    ...[
      'model:gpt,gpt-4',
      'tag:x,xy',
      'name:plan,b',
      'error:E,Err',
      'custom.k:v,vw',
      'key:key_test',
    ],
    ...['span:many69', 'session:none', 'name:none,plan', 'status:error kind:llm', 'tool:b,hammer'],
  );
  const term = fc.tuple(fc.boolean(), texts).map(([negated, text]) => (negated ? '-' : '') + text);
  return fc.array(term, { minLength: 1, maxLength: 3 }).map((terms) => terms.join(' '));
}
