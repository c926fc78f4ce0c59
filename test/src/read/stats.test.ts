import type { Test } from 'tap';
import t from 'tap';
import { RetryableError } from '../../../src/model/errors.ts';
import type { Observation } from '../../../src/model/observation.ts';
import type { ReadLimits } from '../../../src/read/reads.ts';
import { MAX_VALUES } from '../../../src/store/rollups/fields.ts';
import type { FacetAsked } from '../../../src/store/rollups/reading.ts';
import { anObservation, nativeBatch } from '../../helper/batches.ts';
import { readingListener } from '../../helper/reading-listener.ts';

const HOUR_MS = 3_600_000;
const T0 = Date.UTC(2026, 0, 15, 12);
const at = (ms: number) => ({ ms: T0 + ms, ns: 0 });
const RANGE = 'from=2026-01-15T10:20:00Z&to=2026-01-15T14:30:00Z';

type Point = Readonly<Record<string, number | string | null>>;
type Stats = {
  readonly from: string;
  readonly to: string;
  readonly groups: readonly { readonly key: string | null; readonly points: readonly Point[] }[];
  readonly left_out: number;
  readonly partial: boolean;
  readonly searched_to: string | null;
};

async function reading(t: Test, limits: Partial<ReadLimits> = {}) {
  const { store, finish, get: getText } = await readingListener(t, limits);
  const get = async (path: string) => {
    const { status, json: body } = await getText(path);
    return { status, body };
  };
  return {
    ...{ get, finish, rollups: store.rollups },
    async stats(query: string): Promise<Stats> {
      const { status, body } = await get(`/stats?${query}`);
      if (status !== 200) throw new Error(JSON.stringify(body));
      return body as Stats;
    },
    async facet(query: string): Promise<Record<string, number>> {
      const { status, body } = await get(
        `/facets?${query}&from=2026-01-15T00:00:00Z&to=2026-01-16T00:00:00Z`,
      );
      if (status !== 200) throw new Error(JSON.stringify(body));
      const { values } = body as { values: { value: string; traces: number }[] };
      return Object.fromEntries(values.map(({ value, traces }) => [value, traces]));
    },
    async write(list: readonly Partial<Observation>[]) {
      const observations = list.map((more, index) => anObservation({ ...more, index }));
      const source = nativeBatch(list.length, { receivedAt: T0 });
      await store.traces.write({ kind: 'observations', source, observations });
    },
  };
}

/** Three traces in two hours, of two users. */
const TRACES: readonly Partial<Observation>[] = [
  {
    ...{ traceId: 'a', id: 'a', userId: 'u', model: 'm', startTime: at(0), endTime: at(100) },
    usage: { input_tokens: 10, output_tokens: 1 },
    details: { cost: { input: 1, output: 1, total: 2_500_000, source: 'sent' }, tags: ['x'] },
  },
  {
    ...{ traceId: 'b', id: 'b', userId: 'u', model: 'n', startTime: at(400_000), status: 'error' },
    ...{ endTime: at(400_900), customFields: { env: 'prod' } },
  },
  {
    ...{ traceId: 'c', id: 'c', userId: 'v', model: 'm', startTime: at(HOUR_MS) },
    ...{ endTime: at(HOUR_MS + 3000), details: { release: 'r1' } },
  },
];

t.test('stats have the numbers of each hour, and the range that they cover', async (t) => {
  const { write, stats } = await reading(t);
  await write(TRACES);
  const { groups, ...rest } = await stats(RANGE);
  t.match(rest, {
    ...{ step: '1h', from: '2026-01-15T10:00:00.000Z', to: '2026-01-15T15:00:00.000Z' },
    ...{ group_by: null, left_out: 0, partial: false, searched_to: null },
  });
  t.same(
    groups.map(({ key, points }) => [key, points.length]),
    [[null, 2]],
  );
  const [first, second] = groups[0]?.points ?? [];
  t.match(first, {
    ...{ time: '2026-01-15T12:00:00.000Z', traces: 2, observations: 2, errors: 1, cost: 0.0025 },
    ...{ input_tokens: 10, output_tokens: 1, cached_tokens: 0 },
  });
  t.match(second, { time: '2026-01-15T13:00:00.000Z', traces: 1, cost: 0 });
  for (const [name, latency] of [
    ['latency_p50_ms', 100],
    ['latency_p99_ms', 900],
  ] as const) {
    const shown = Number(first?.[name]);
    t.ok(Math.abs(shown - latency) <= latency / 20, `${name} is ${shown}`);
  }
});

t.test('the range of stats has every hour that the asked range has a part of', async (t) => {
  const { stats } = await reading(t);
  const range = async (from: string, to: string) => {
    const found = await stats(`from=2026-01-15T${from}Z&to=2026-01-15T${to}Z`);
    return [found.from, found.to].map((time) => time.slice(11, 16));
  };
  t.same(await range('12:00:00', '13:00:00'), ['12:00', '13:00']);
  t.same(await range('11:59:59.999', '13:00:00.000000001'), ['11:00', '14:00']);
});

t.test('points of hours are those of the values that the hours have most traces of', async (t) => {
  const { write, stats, finish } = await reading(t);
  const user = (userId: string, traceId: string, hour: number): Partial<Observation> => ({
    ...{ traceId, id: traceId, userId, startTime: at(hour * HOUR_MS) },
  });
  // The day has no row for the users that come later.
  await write(Array.from({ length: MAX_VALUES }, (_, i) => user(`early ${i}`, `${i}`, -11)));
  await write([user('early 7', 'again', -11)]);
  await finish();
  await write(['a', 'b', 'c'].map((id, i) => user('late', id, i)));
  await finish();
  const top = async (query: string) => {
    const day = 'from=2026-01-15T00:00:00Z&to=2026-01-16T00:00:00Z';
    const { groups, left_out } = await stats(`${day}&group_by=user&limit=2&${query}`);
    const shown = groups.map(({ key, points }) => [key, ...points.map(({ traces }) => traces)]);
    return { groups: shown, left_out };
  };
  t.same(await top('step=1h'), {
    groups: [
      ['late', 1, 1, 1],
      ['early 7', 2],
    ],
    left_out: MAX_VALUES - 1,
  });
  t.match(await top('step=1d'), {
    groups: [
      ['early 7', 2],
      ['early 0', 1],
      [null, 3],
    ],
  });
});

t.test('groups of a query have no numbers of values that it does not name', async (t) => {
  const { write, stats, finish } = await reading(t);
  const tooLong = 'x'.repeat(257);
  await write([...TRACES, { traceId: 'd', id: 'd', userId: tooLong, startTime: at(1) }]);
  const keys = async (query: string) =>
    (await stats(`${RANGE}&group_by=user${query}`)).groups.map(({ key }) => key);
  for (const when of ['as changes', 'in rows']) {
    t.same(await keys('&q=user:u'), ['u'], when);
    t.same(await keys('&q=user:u+start:>2000-01-01'), ['u'], when);
    t.same(await keys(''), ['u', 'v', null], when);
    t.same(await keys('&limit=1'), ['u', null], when);
    await finish();
  }
});

t.test('a term on a field of rollups, any other query and every step count the same', async (t) => {
  const { write, stats, finish } = await reading(t);
  await write(TRACES);
  const count = async (query: string) =>
    (await stats(`${RANGE}&${query}`)).groups.map(({ key, points }) => [
      key,
      ...points.map(({ traces }) => traces),
    ]);
  for (const when of ['as changes', 'in rows']) {
    t.same(await count('q=user:u'), [[null, 2]], when);
    t.same(await count('q=user:u,v'), [[null, 2, 1]], when);
    t.same(await count('q=user:u+start:>2000-01-01'), [[null, 2]], when);
    t.same(await count('q=-user:u'), [[null, 1]], when);
    t.same(await count('q=user:nobody'), [], when);
    t.same(await count('q=model:m'), [[null, 1, 1]], when);
    t.same(await count('q=model:m&step=5m'), [[null, 1, 1]], when);
    t.same(
      await count('q=model:m&group_by=user'),
      [
        ['u', 1],
        ['v', 1],
      ],
      when,
    );
    t.same(
      await count('group_by=model'),
      [
        ['m', 1, 1],
        ['n', 1],
      ],
      when,
    );
    t.same(
      await count('group_by=model&step=5m'),
      [
        ['m', 1, 1],
        ['n', 1],
      ],
      when,
    );
    t.same(
      await count('group_by=user&step=1d'),
      [
        ['u', 2],
        ['v', 1],
      ],
      when,
    );
    t.same(await count('q=tag:x&group_by=status'), [['success', 1]], when);
    await finish();
  }
  const { groups } = await stats(`${RANGE}&step=5m`);
  t.same(
    groups[0]?.points.map(({ time }) => time),
    ['2026-01-15T12:00:00.000Z', '2026-01-15T12:05:00.000Z', '2026-01-15T13:00:00.000Z'],
  );
});

t.test('the groups with the most traces are shown, and the others are counted', async (t) => {
  const { write, stats } = await reading(t);
  await write(TRACES);
  for (const step of ['5m', '1h', '1d']) {
    const { groups, left_out } = await stats(`${RANGE}&group_by=user&limit=1&step=${step}`);
    t.same([groups.map(({ key }) => key), left_out], [['u'], 1], step);
  }
});

t.test('a metric selects the members of points', async (t) => {
  const { write, stats } = await reading(t);
  await write(TRACES.slice(0, 1));
  const { groups } = await stats(`${RANGE}&metric=cost,tokens,p95`);
  t.same(Object.keys(groups[0]?.points[0] ?? {}), [
    ...['time', 'cost', 'input_tokens', 'output_tokens', 'cached_tokens', 'latency_p95_ms'],
  ]);
});

t.test('a search that takes long is partial, and says how far it came', async (t) => {
  const { write, stats, get } = await reading(t, { page_time: 0 });
  const many = Array.from({ length: 1200 }, (_, i) => ({
    ...{ traceId: `t${i}`, id: `o${i}`, startTime: at(i), endTime: at(i + 1) },
  }));
  for (let from = 0; from < many.length; from += 200) await write(many.slice(from, from + 200));
  const { partial, searched_to, groups } = await stats(`${RANGE}&q=name:chat+span:chat`);
  t.equal(partial, true);
  t.match(searched_to, /^2026-01-15T12:00:00\.\d+Z$/);
  const traces = Number(groups[0]?.points[0]?.traces);
  t.ok(traces > 0 && traces < 1200, `${traces} of 1200`);
  t.match((await get('/facets?field=name&q=span:chat&from=2026-01-15T00:00:00Z')).body, {
    partial: true,
  });
});

t.test('limits of stats hold exactly', async (t) => {
  const { get } = await reading(t, { stats_points: 48 });
  const status = async (query: string) => {
    const { status, body } = await get(`/stats?${query}`);
    return status === 200 ? 200 : String(body.message);
  };
  const days = (from: string, to: string) => `from=2026-01-${from}:00Z&to=2026-01-${to}:00Z`;
  t.equal(await status(days('01T00:00', '03T00:00')), 200);
  t.match(await status(days('01T00:00', '03T00:01')), 'step gives 49 points, of at most 48');
  t.equal(await status(`${days('01T00:00', '02T00:00')}&group_by=user&limit=2`), 200);
  t.match(
    await status(`${days('01T00:00', '02T00:00')}&group_by=user&limit=3`),
    'limit must be at most 2 for 24 points a group',
  );
  t.match(await status(`${days('01T00:00', '02T00:00')}&step=5m`), 'step gives 288 points');
  const wide = await reading(t);
  const wideStatus = async (query: string) => (await wide.get(`/stats?${query}`)).status;
  t.equal(await wideStatus(`${days('01T00:00', '02T00:00')}&step=5m`), 200);
  t.equal(await wideStatus(`${days('01T00:00', '02T00:05')}&step=5m`), 400);
  t.equal(await wideStatus('group_by=user&limit=100'), 200);
  t.equal(await wideStatus('group_by=user&limit=101'), 400);
});

t.test('mistakes of stats and facets are 400', async (t) => {
  const { get } = await reading(t);
  for (const [path, message] of [
    ['/stats?step=2h', 'step must be one of 5m, 1h, 1d'],
    ['/stats?group_by=latency', 'group_by must be one of name, model, user'],
    ['/stats?metric=cost,p90', 'metric must be a list of traces'],
    ['/stats?from=2026-01-02T00:00:00Z&to=2026-01-02T00:00:00Z', 'from must be before to'],
    ['/stats?q=modle:x', 'Unknown field "modle"'],
    ['/stats?groupby=user', 'did you mean "group_by"?'],
    ['/facets', 'field must be one of'],
    ['/facets?field=all', 'field must be one of'],
    ['/facets?field=latency', 'field must be one of'],
    ['/facets?field=tool.x', 'span, kind, model, provider, error, tool, prompt'],
    ['/facets?field=user&limit=1001', 'limit must be 1 to 1000'],
  ] as const) {
    const { status, body } = await get(path);
    t.equal(status, 400, path);
    t.match(body.message, message, path);
  }
});

t.test('facets count the traces of each value', async (t) => {
  const { write, facet, finish, get } = await reading(t);
  await write(TRACES);
  for (const when of ['as changes', 'in rows']) {
    t.same(await facet('field=user'), { u: 2, v: 1 }, when);
    t.same(await facet('field=model&prefix=m'), { m: 2 }, when);
    t.same(await facet('field=user&q=model:m'), { u: 1, v: 1 }, when);
    t.same(await facet('field=user&limit=1'), { u: 2 }, when);
    await finish();
  }
  t.same(await facet('field=tag'), { x: 1 });
  t.same(await facet('field=release'), { r1: 1 });
  t.same(await facet('field=custom.env'), { prod: 1 });
  t.same(await facet('field=source&q=user:u'), { native: 2 });
  const { body } = await get(
    '/facets?field=user&from=2026-01-15T12:59:00Z&to=2026-01-15T13:00:01Z',
  );
  t.match(body, {
    ...{ from: '2026-01-15T12:00:00.000Z', to: '2026-01-15T14:00:00.000Z', partial: false },
    ...{
      values: [
        { value: 'u', traces: 2 },
        { value: 'v', traces: 1 },
      ],
      others: 0,
    },
  });
});

t.test('facets of all time read few parts without values', async (t) => {
  const { write, get, rollups } = await reading(t);
  await write([
    ...TRACES,
    { traceId: 'old', id: 'old', userId: 'u', startTime: { ms: Date.UTC(1985, 0, 1), ns: 0 } },
  ]);
  const path = '/facets?field=user&from=1970-01-01T00:00:00Z&to=2026-02-01T00:00:00Z';
  const values = [
    { value: 'u', traces: 3 },
    { value: 'v', traces: 1 },
  ];
  const { facet } = rollups;
  const read = t.capture(rollups, 'facet', facet.bind(rollups));
  t.match((await get(path)).body, { values, partial: false });
  t.ok(read().length < 40, 'each part has at most the time of all behind it');

  let slow = 0;
  t.intercept(rollups, 'facet', {
    value: (project: string, asked: FacetAsked) => {
      if (asked.hours.to - asked.hours.from <= 31 * 24) return facet.call(rollups, project, asked);
      slow++;
      throw new RetryableError('query_timeout', 'slow');
    },
  });
  t.match((await get(path)).body, { values, partial: false }, 'a slow part is read in small ones');
  t.equal(slow, 1, 'and so are all behind it');
});

t.test(
  'facets with a query, and those of fields without sums, cover the range exactly',
  async (t) => {
    const { write, get } = await reading(t);
    await write(TRACES);
    const range = { from: '2026-01-15T12:03:00.000Z', to: '2026-01-15T12:59:00.500Z' };
    const counted = async (query: string) => {
      const { body } = await get(`/facets?${query}&${new URLSearchParams(range)}`);
      t.match(body, range, query);
      return (body as { values: unknown }).values;
    };
    t.same(await counted('field=user&q=source:native'), [{ value: 'u', traces: 1 }]);
    t.same(await counted('field=state'), [{ value: 'error', traces: 1 }]);
    t.same(await counted('field=custom.env'), [{ value: 'prod', traces: 1 }]);
    t.same(await counted('field=release'), []);
    const { body } = await get(`/facets?field=state&from=${range.from}`);
    t.match(body, { from: range.from, to: /:00:00\.000Z$/ });
    t.match((await get('/facets?field=state')).body, {
      ...{ from: /:00:00\.000Z$/, to: /:00:00\.000Z$/ },
    });
  },
);

t.test('facets count the traces of each value of an observation', async (t) => {
  const { write, facet, get } = await reading(t, { page_time: 10_000 });
  const failed = { message: 'slow down', type: 'rate_limit', stacktrace: null };
  const prompted = { provider: 'openai', promptName: 'greet' };
  await write([
    { traceId: 'a', id: 'a', name: 'root', startTime: at(0), details: { provider: 'openai' } },
    { traceId: 'a', id: 'b', name: 'root', startTime: at(1), details: prompted },
    { traceId: 'a', id: 'c', name: 'ask', startTime: at(2), error: failed, userId: 'u' },
    { traceId: 'b', id: 'd', name: 'ask', startTime: at(3), error: failed },
    { traceId: 'b', id: 'e', name: 'ask', startTime: at(4), error: { ...failed, type: null } },
  ]);
  t.same(await facet('field=span'), { ask: 2, root: 1 });
  t.same(await facet('field=span&prefix=r'), { root: 1 });
  t.same(await facet('field=span&limit=1'), { ask: 2 });
  t.same(await facet('field=provider'), { openai: 1 });
  t.same(await facet('field=prompt'), { greet: 1 });
  t.same(await facet('field=error'), { rate_limit: 2 });
  t.same(await facet('field=error&q=user:u'), { rate_limit: 1 });
  t.same(await facet('field=error&q=provider:openai'), { rate_limit: 1 });
  const { body } = await get('/facets?field=span&from=2026-01-15T12:00:00Z');
  t.match(body, { others: 0, partial: false, searched_to: null });
});

t.test('a facet whose budget ends says how far it looked', async (t) => {
  const { write, get } = await reading(t, { page_time: 0 });
  for (let i = 0; i < 600; i += 100) {
    await write(
      Array.from({ length: 100 }, (_, j) => ({
        ...{ traceId: `t-${i + j}`, id: `o-${i + j}`, name: 'n', startTime: at(i + j) },
      })),
    );
  }
  const { body } = await get(
    '/facets?field=span&from=2026-01-15T00:00:00Z&to=2026-01-16T00:00:00Z',
  );
  t.match(body, { values: [{ value: 'n', traces: 512 }], partial: true });
  t.equal(body.searched_to, '2026-01-15T12:00:00.088Z');
});
