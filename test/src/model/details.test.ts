import t from 'tap';
import {
  checkedDetails,
  clipped,
  DETAIL_NAMES,
  detailsOf,
  MAX_DETAIL_LENGTH,
  MAX_TAGS,
  millisecondsBetween,
  nanosOfUsd,
  sentCost,
  tagsOf,
} from '../../../src/model/details.ts';

t.test('reads amounts in USD as whole nanos, and refuses all other values', async (t) => {
  t.equal(nanosOfUsd(0), 0);
  t.equal(nanosOfUsd('0.000000001'), 1);
  t.equal(nanosOfUsd(0.1 + 0.2), 300_000_000);
  t.equal(nanosOfUsd('1e-3'), 1_000_000);
  t.equal(nanosOfUsd(9_007_199.25), 9_007_199_250_000_000);
  t.equal(nanosOfUsd(9_007_200), undefined, 'beyond exact integers');
  for (const wrong of [-1, Number.NaN, Number.POSITIVE_INFINITY, '', 'free', '0x10', null, true]) {
    t.equal(nanosOfUsd(wrong), undefined, String(wrong));
  }
});

t.test('a sent cost without a total is the sum of its parts', async (t) => {
  t.same(sentCost({ input: 1, output: 2 }), { input: 1, output: 2, total: 3, source: 'sent' });
  t.same(sentCost({ input: 1, total: 9 }), { input: 1, output: null, total: 9, source: 'sent' });
  t.equal(sentCost({}), undefined);
});

t.test('cuts a text one past the limit, and never within a character', async (t) => {
  const longest = 'x'.repeat(MAX_DETAIL_LENGTH);
  t.equal(clipped(longest), longest);
  t.equal(clipped(`${longest}y`), longest);
  t.equal(clipped(`${longest.slice(1)}😀`), longest.slice(1), 'a pair that would be cut');
  t.equal(clipped(''), undefined);
  t.equal(clipped(null), undefined);
});

t.test('keeps distinct tags up to the limit', async (t) => {
  const most = Array.from({ length: MAX_TAGS }, (_, i) => `tag-${i}`);
  t.same(tagsOf(most), most);
  t.same(tagsOf([...most, 'more']), most);
  t.same(tagsOf(['a', ' a ', '', ' ', 5, null]), ['a']);
  t.equal(tagsOf(['', 1]), undefined);
});

t.test('leaves out absent members', async (t) => {
  t.equal(detailsOf({ provider: undefined }), null);
  t.same(detailsOf({ provider: undefined, tool: 't' }), { tool: 't' });
  const all = Object.fromEntries(DETAIL_NAMES.toReversed().map((name) => [name, name]));
  const kept = detailsOf(all as Parameters<typeof detailsOf>[0]);
  t.same(Object.keys(kept ?? {}), DETAIL_NAMES, 'keeps every other one, in the order of the names');
});

t.test('measures exact times, and none that runs backwards', async (t) => {
  t.equal(millisecondsBetween({ ms: 5, ns: 900_000 }, { ms: 6, ns: 400_000 }), 0.5);
  t.equal(millisecondsBetween({ ms: 5, ns: 0 }, { ms: 5, ns: 0 }), 0);
  t.equal(millisecondsBetween({ ms: 5, ns: 1 }, { ms: 5, ns: 0 }), undefined);
  t.equal(millisecondsBetween(null, { ms: 5, ns: 0 }), undefined);
});

t.test('keeps the sound members of details from another program', async (t) => {
  const cost = { input: null, output: 2, total: 3, source: 'computed' };
  const sound = {
    ...{ provider: 'p', environment: 'e', release: 'r', tags: ['a'], promptName: 'n' },
    ...{ promptVersion: '1', tool: 't', ttftMs: 2.5, cost, scope: 's' },
    ...{ inputBytes: 0, outputBytes: 7 },
  };
  t.same(checkedDetails(sound), sound);
  t.same(checkedDetails({ ...sound, more: 1 }), sound);
  const ignored = [{ path: 'usage.total', reason: 'is no count of tokens' }];
  t.same(checkedDetails({ ignored, responseId: 'r', traceName: 'n' }), {
    ...{ ignored, responseId: 'r', traceName: 'n' },
  });
  for (const wrong of [5, [], ['x'], [{ path: 5, reason: 'r' }], new Array(17).fill(ignored[0])]) {
    t.equal(checkedDetails({ ignored: wrong }), null);
  }
  t.equal(checkedDetails(null), null);
  t.equal(checkedDetails([sound]), null);
  t.equal(checkedDetails({ provider: 1, tags: 'a', ttftMs: '1', cost: 5 }), null);
  t.equal(checkedDetails({ ttftMs: Number.POSITIVE_INFINITY }), null, 'as of 1e400 in JSON');
  t.equal(checkedDetails({ inputBytes: -1, outputBytes: 0.5 }), null);
  for (const wrong of [{ total: 1.5 }, { total: -1 }, { input: 'x' }, { source: 'guessed' }]) {
    t.equal(checkedDetails({ cost: { ...cost, ...wrong } }), null, JSON.stringify(wrong));
  }
});
