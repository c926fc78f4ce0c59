import t from 'tap';
import type { Trace } from '../../../../ui/api/types.ts';
import type { Marked } from '../../../../ui/parts/marks.ts';
import { markedBy } from '../../../../ui/parts/marks.ts';
import {
  barsOf,
  countedIn,
  isMuchLonger,
  isReversed,
  rangeKey,
  rangeOf,
} from '../../../../ui/state/range.ts';
import { barsIn, selectionOf } from '../../../../ui/views/traces/bars.ts';
import { columnsOf, leastWidth, toggleColumn } from '../../../../ui/views/traces/columns.ts';
import type { Change, Changes } from '../../../../ui/views/traces/list.ts';
import {
  gathered,
  goesOn,
  joined,
  NO_CHANGES,
  withChanged,
  withoutOlder,
} from '../../../../ui/views/traces/list.ts';

const NOW = Date.parse('2026-11-20T12:34:56.000Z');
const HOUR = 3_600_000;

function trace(id: string, start_time: string | null, name = ''): Trace {
  return { id, start_time, name } as Trace;
}

function changesOf(traces: readonly Trace[], first = 1): Change[] {
  return traces.map((each, index) => ({ id: each.id, number: first + index, trace: each }));
}

function left(id: string, number: number): Change {
  return { id, number, trace: undefined };
}

t.test('puts changed traces in the place of their start', async (t) => {
  const list = [trace('c', '2026-11-20T03:00:00Z'), trace('a', '2026-11-20T01:00:00Z')];
  const changed = changesOf([
    trace('b', '2026-11-20T02:00:00Z'),
    trace('a', '2026-11-20T01:00:00Z', 'new'),
  ]);
  const all = { from: undefined, hasMore: false };
  const after = withChanged(list, changed, all);
  t.same(
    after.map(({ id, name }) => id + name),
    ['c', 'b', 'anew'],
  );
  t.same(
    withChanged(list, changesOf([trace('x', null)]), all).map(({ id }) => id),
    ['x', 'c', 'a'],
  );
  t.same(withChanged(list, [], all), list);
});

t.test('a trace without a start keeps its place by arrival when newer ones come', async (t) => {
  const all = { from: undefined, hasMore: false };
  const orderOf = (list: readonly Trace[], changed: readonly Trace[]): string =>
    withChanged(list, changesOf(changed), all)
      .map(({ id }) => id)
      .join(' ');
  const [a, b] = [trace('a', '2026-11-20T01:00:00Z'), trace('b', '2026-11-20T02:00:00Z')];
  const [c, d] = [trace('c', '2026-11-20T03:00:00Z'), trace('d', '2026-11-20T04:00:00Z')];
  t.equal(orderOf([b, trace('x', null), a], [c]), 'c b x a');
  t.equal(orderOf([trace('x', null), b, a], [c]), 'c x b a');
  t.equal(orderOf([b, trace('x', null)], [c]), 'c b x');
  t.equal(orderOf([trace('x', null)], [c]), 'c x');
  t.equal(orderOf([b, a], [c, trace('x', null), d]), 'd x c b a', 'it came between two others');
  t.equal(orderOf([b], [trace('x', null), trace('y', null)]), 'y x b');
});

t.test('takes in no trace that is older than the range or the pages that are there', async (t) => {
  const list = [trace('c', '2026-11-20T03:00:00Z'), trace('b', '2026-11-20T02:00:00Z')];
  const changed = changesOf([
    trace('a', '2026-11-20T01:00:00Z'),
    trace('b', '2026-11-20T02:00:00Z', 'new'),
    trace('old', '2026-11-19T00:00:00Z'),
  ]);
  const idsIn = (from: string | undefined, hasMore: boolean) =>
    withChanged(list, changed, { from, hasMore }).map(({ id, name }) => id + name);
  t.same(idsIn('2026-11-20T00:00:00Z', false), ['c', 'bnew', 'a']);
  t.same(idsIn(undefined, true), ['c', 'bnew']);
  t.same(idsIn(undefined, false), ['c', 'bnew', 'a', 'old']);
});

t.test('leaves out traces that are older than the range', async (t) => {
  const list = [
    ...[trace('x', null), trace('c', '2026-11-20T03:00:00Z')],
    ...[trace('b', '2026-11-20T02:00:00Z'), trace('a', '2026-11-20T01:59:59.999Z')],
  ];
  const idsSince = (from: string | undefined) => withoutOlder(list, from).map(({ id }) => id);
  t.same(idsSince('2026-11-20T02:00:00Z'), ['x', 'c', 'b']);
  t.same(idsSince(undefined), ['x', 'c', 'b', 'a']);
});

t.test('removes traces that left, and keeps the newest change of each', async (t) => {
  const list = [trace('c', '2026-11-20T03:00:00Z'), trace('b', '2026-11-20T02:00:00Z')];
  const mayList = (id: string) => ['c', 'b'].includes(id);
  const all = { from: undefined, hasMore: false };
  const shown = ({ kept }: Changes) =>
    withChanged(list, kept, all).map(({ id, name }) => id + name);
  const arrived = changesOf([trace('d', '2026-11-20T04:00:00Z'), trace('c', null, '1')]);
  const before = gathered(NO_CHANGES, arrived, mayList);
  const gone = gathered(before, [left('d', 3), left('b', 4), left('elsewhere', 5)], mayList);
  t.same(
    gone.kept.map(({ id }) => id),
    ['c', 'b'],
    'one that is not listed needs no change',
  );
  t.same(shown(gone), ['c1']);
  const again = changesOf([trace('b', '2026-11-20T02:00:00Z', 'again')], 6);
  t.same(shown(gathered(gone, again, mayList)), ['c1', 'bagain']);
});

t.test('keeps 2,000 changes, and says which are lost', async (t) => {
  const mayList = () => false;
  const many = changesOf(Array.from({ length: 2_000 }, (_, index) => trace(`many ${index}`, null)));
  const all = gathered(NO_CHANGES, many, mayList);
  t.equal(all.kept.length, 2_000);
  t.equal(all.lost, 0);
  const repeated = gathered(all, changesOf([trace('many 0', null)], 2_001), mayList);
  t.equal(repeated.lost, 0, 'a trace counts once');
  const over = gathered(repeated, changesOf([trace('x', null), trace('y', null)], 2_002), mayList);
  t.equal(over.kept.length, 2_000);
  t.equal(over.kept.at(-1)?.id, 'y');
  t.equal(over.lost, 3, 'the changes 2 and 3 are lost');
  t.equal(gathered(over, [], mayList).lost, 3);
});

t.test('lists a trace once that two pages have', async (t) => {
  const all = joined([trace('a', null), trace('b', null)], [trace('b', null), trace('c', null)]);
  t.same(
    all.map(({ id }) => id),
    ['a', 'b', 'c'],
  );
});

t.test('reads the range of an address, with 7 days as the usual one', async (t) => {
  const of = (text: string) => rangeOf(new URLSearchParams(text), NOW);
  t.match(of(''), { name: '7d', from: '2026-11-13T12:34:56.000Z', to: undefined });
  t.match(of('range=24h'), { name: '24h', from: '2026-11-19T12:34:56.000Z' });
  t.match(of('range=nothing'), { name: '7d' });
  t.match(of('range=all'), { name: 'all', from: undefined, to: undefined });
  t.match(of('from=2026-11-01&to=2026-11-02T00:00:00Z&range=1h'), {
    ...{ name: 'custom', from: '2026-11-01T00:00:00.000Z', to: '2026-11-02T00:00:00.000Z' },
  });
  t.match(of('from=nonsense'), { name: '7d' });
});

t.test('knows a range that ends before it begins, or has no length', async (t) => {
  const of = (text: string) => isReversed(rangeOf(new URLSearchParams(text), NOW), NOW);
  t.equal(of('from=2026-11-02&to=2026-11-01'), true);
  t.equal(of('from=2026-11-01&to=2026-11-01'), true);
  t.equal(of('from=2026-11-01&to=2026-11-01T00:00:00.001Z'), false);
  t.equal(of('from=2026-11-20T12:34:56.000Z'), true, 'it ends now');
  t.equal(of('from=2026-11-20T12:34:55.999Z'), false);
  t.equal(of('to=2026-11-01'), false);
  t.equal(of('range=all'), false);
});

t.test('the text of a range is in UTC, and says so', async (t) => {
  const before = process.env['TZ'];
  t.teardown(() => {
    process.env['TZ'] = before ?? 'Etc/UTC';
  });
  process.env['TZ'] = 'America/Los_Angeles';
  const of = (text: string) => rangeOf(new URLSearchParams(text), NOW).label;
  t.match(
    of('from=2026-11-01T00:30:00Z&to=2026-11-02T13:00:00Z'),
    /^Nov 1, 12:30.AM – Nov 2, 01:00.PM UTC$/,
  );
  t.match(of('from=2026-01-01T00:30:00Z'), /^Since Jan 1, 12:30.AM UTC$/);
  t.match(of('to=2025-12-31T23:30:00Z'), /^Until Dec 31, 2025, 11:30.PM UTC$/);
});

t.test('a time of day in an address is UTC if it names no zone', async (t) => {
  const before = process.env['TZ'];
  t.teardown(() => {
    process.env['TZ'] = before ?? 'Etc/UTC';
  });
  process.env['TZ'] = 'Asia/Kolkata';
  const of = (from: string) => rangeOf(new URLSearchParams({ from }), NOW).from;
  for (const text of ['2026-11-02T10:00', '2026-11-02T10:00:00', '2026-11-02t10:00:00.000']) {
    t.equal(of(text), '2026-11-02T10:00:00.000Z', text);
  }
  t.equal(of('2026-11-02'), '2026-11-02T00:00:00.000Z');
  t.equal(of('2026-11-02T10:00Z'), '2026-11-02T10:00:00.000Z');
  t.equal(of('2026-11-02T10:00+05:30'), '2026-11-02T04:30:00.000Z');
});

t.test('tells ranges apart by their bounds, and relative ones by their name', async (t) => {
  const of = (text: string, now = NOW) => rangeKey(rangeOf(new URLSearchParams(text), now));
  t.equal(of('range=24h'), of('range=24h', NOW + 1));
  t.not(of('range=24h'), of('range=7d'));
  t.not(of('from=2026-11-01&to=2026-11-03'), of('from=2026-11-02&to=2026-11-03'));
  t.not(of('from=2026-11-01&to=2026-11-02'), of('from=2026-11-01&to=2026-11-03'));
});

t.test('chooses the step of the bars by the length of the range', async (t) => {
  const of = (ms: number) => barsOf({ from: new Date(NOW - ms).toISOString(), to: undefined }, NOW);
  t.equal(of(6 * HOUR).step, '5m');
  t.equal(of(6 * HOUR + 1).step, '1h');
  t.equal(of(192 * HOUR).step, '1h');
  t.equal(of(192 * HOUR + 1).step, '1d');
  t.equal(barsOf({ from: undefined, to: undefined }, NOW).step, '1d');
  t.equal(of(HOUR).from % 300_000, 0);
  const years = barsOf({ from: '0001-01-01T00:00:00.000Z', to: undefined }, NOW);
  t.ok((years.to - years.from) / (24 * HOUR) <= 367);
  t.equal(years.days, 366, 'a part of the range');
  t.equal(barsOf({ from: undefined, to: undefined }, NOW).days, 90);
  t.equal(of(366 * 24 * HOUR).days, undefined);
});

t.test('counts for bars begin with the range, not with the first bar', async (t) => {
  const counted = (text: string) => {
    const range = rangeOf(new URLSearchParams(text), NOW);
    return countedIn(range, barsOf(range, NOW));
  };
  const to = '2026-11-20T12:34:56.000Z';
  t.same(counted('range=30d'), { from: '2026-10-21T12:34:56.000Z', to });
  t.same(counted('range=all'), { from: '2026-08-22T00:00:00.000Z', to });
  t.same(counted('from=2020-01-01'), { from: '2025-11-19T00:00:00.000Z', to });
});

t.test('says which counts of whole hours cover much more than a range', async (t) => {
  const counted = { from: '2026-11-20T11:00:00.000Z', to: '2026-11-20T13:00:00.000Z' };
  const of = (text: string) => isMuchLonger(counted, rangeOf(new URLSearchParams(text), NOW), NOW);
  t.equal(of('range=1h'), true);
  t.equal(of('from=2026-11-20T11:00:00Z'), false);
  t.equal(of('from=2026-11-20T11:00:00Z&to=2026-11-20T12:00:00Z'), true);
  t.equal(of('from=2026-11-20T11:03:00Z&to=2026-11-20T13:00:00Z'), false);
  t.equal(of('range=all'), false);
});

t.test('makes a bar for each step, with the failed traces apart', async (t) => {
  const from = Date.parse('2026-11-20T10:00:00.000Z');
  const point = (time: string, traces: number) => ({ time, traces });
  const groups = [
    { key: 'success', points: [point('2026-11-20T10:00:00.000Z', 3)] },
    {
      key: 'error',
      points: [point('2026-11-20T10:00:00.000Z', 1), point('2020-01-01T00:00:00Z', 9)],
    },
  ];
  const bars = barsIn({ groups }, { from, to: from + 2 * HOUR, step: '1h' });
  t.same(bars, [
    { at: from, traces: 4, failed: 1 },
    { at: from + HOUR, traces: 0, failed: 0 },
  ]);
  t.same(selectionOf(bars, { from: 1, to: 0 }, HOUR), {
    from: '2026-11-20T10:00:00.000Z',
    to: '2026-11-20T12:00:00.000Z',
  });
  t.equal(selectionOf([], { from: 0, to: 0 }, HOUR), undefined);
});

t.test('keys mark bars of the histogram, and more of them with Shift', async (t) => {
  const press = (key: string, before?: Marked, isExtended = false): Marked | undefined =>
    markedBy(key, before, { count: 5, isExtended });
  t.same(press('ArrowLeft'), { from: 4, to: 4 }, 'the newest bar first');
  t.same(press('ArrowRight'), { from: 4, to: 4 });
  t.same(press('Home'), { from: 0, to: 0 });
  t.same(press('ArrowLeft', { from: 3, to: 3 }), { from: 2, to: 2 });
  t.same(press('ArrowLeft', { from: 3, to: 3 }, true), { from: 3, to: 2 });
  t.same(press('End', { from: 3, to: 2 }, true), { from: 3, to: 4 });
  t.same(press('ArrowLeft', { from: 0, to: 0 }), { from: 0, to: 0 }, 'stays at the edge');
  t.same(press('ArrowLeft', { from: 9, to: 9 }), { from: 4, to: 4 }, 'of a longer range before');
  t.equal(press('a', { from: 0, to: 0 }), undefined);
  t.equal(markedBy('Home', undefined, { count: 0, isExtended: false }), undefined);
});

t.test('reads the columns of an address, in the order of the table', async (t) => {
  const ids = (text: string | undefined) => columnsOf(text).map(({ id }) => id);
  t.same(ids('cost,name,nothing'), ['name', 'cost']);
  t.same(ids(undefined).slice(0, 3), ['start', 'name', 'status']);
  t.same(ids('nothing'), ids(undefined));
  t.equal(toggleColumn(columnsOf('name,cost'), 'cost'), 'name');
  t.equal(toggleColumn(columnsOf('name'), 'cost'), 'name,cost');
  t.equal(toggleColumn(columnsOf('name'), 'name'), 'name');
  t.ok(leastWidth(columnsOf('input,output')) >= 200);
});

t.test('a search that ended early goes on if it found a trace', async (t) => {
  const byTime = { isByTime: true, limit: 50 };
  t.equal(goesOn(0, byTime), false);
  t.equal(goesOn(1, byTime), true);
});

t.test('a list by a value waits at the end of a part of it', async (t) => {
  const byValue = { isByTime: false, limit: 50 };
  t.equal(goesOn(49, byValue), false);
  t.equal(goesOn(50, byValue), true);
});
