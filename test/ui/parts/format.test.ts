import t from 'tap';
import {
  bytes,
  cost,
  count,
  duration,
  exact,
  exactCost,
  NOTHING,
  relative,
  timeLeft,
} from '../../../ui/parts/format.ts';

type Case = readonly [given: number | null | undefined, text: string];

function check(
  t: Pick<typeof import('tap').t, 'equal'>,
  format: (value: number | null | undefined) => string,
  cases: Case[],
) {
  for (const [given, text] of cases) t.equal(format(given), text, String(given));
}

t.test('writes a duration in its unit', async (t) => {
  check(t, duration, [
    ...([
      [null, NOTHING],
      [undefined, NOTHING],
      [Number.NaN, NOTHING],
    ] as const),
    ...([
      [0, '0 ms'],
      [0.25, '250 µs'],
      [0.9996, '1 ms'],
      [9.994, '9.99 ms'],
      [9.995, '10 ms'],
    ] as const),
    ...([
      [999.4, '999 ms'],
      [999.5, '1.00 s'],
      [9_994, '9.99 s'],
      [9_995, '10.0 s'],
    ] as const),
    ...([
      [59_994, '60.0 s'],
      [60_000, '1 min'],
      [61_000, '1 min 1 s'],
      [3_600_000, '1 h'],
    ] as const),
    ...([
      [90_061_000, '1 d 1 h'],
      [-1500, '−1.50 s'],
      [6.3e13, '729,166 d 16 h'],
    ] as const),
  ]);
});

t.test('writes a cost in full', async (t) => {
  check(t, exactCost, [
    [null, NOTHING],
    [Number.NaN, NOTHING],
    [0, '$0'],
    [0.000_000_042, '$0.000000042'],
    [0.1 + 0.2, '$0.3'],
    [0.012_345_678_9, '$0.0123456789'],
    [1_234_567.89, '$1,234,567.89'],
  ]);
});

t.test('writes a count with a unit from 100,000 on', async (t) => {
  check(t, count, [
    ...([
      [null, NOTHING],
      [0, '0'],
      [99_999, '99,999'],
      [100_000, '100k'],
      [1_250_000, '1.3M'],
    ] as const),
    ...([
      [999_499, '999k'],
      [999_500, '1M'],
      [999_499_999, '999M'],
      [2e9, '2G'],
      [Number.MAX_SAFE_INTEGER, '9P'],
    ] as const),
    ...([
      [9.994e20, '999E'],
      [1e21, '1e21'],
      [1e308, '1e308'],
    ] as const),
  ]);
});

t.test('writes a cost with two digits below ten cents', async (t) => {
  check(t, cost, [
    ...([
      [null, NOTHING],
      [0, '$0'],
      [0.000_000_9, '<$0.000001'],
      [0.000_012_3, '$0.000012'],
    ] as const),
    ...([
      [0.0123, '$0.012'],
      [0.1, '$0.10'],
      [1234.5, '$1,234.50'],
    ] as const),
  ]);
});

t.test('writes bytes in powers of 1,024', async (t) => {
  check(t, bytes, [
    ...([
      [null, NOTHING],
      [1023, '1023 B'],
      [1024, '1 KiB'],
      [1536, '1.5 KiB'],
    ] as const),
    ...([
      [1_048_576, '1 MiB'],
      [1_048_575, '1 MiB'],
      [2 ** 50, '1024 TiB'],
    ] as const),
  ]);
});

t.test('writes a time relative to now, and a date from a week on', async (t) => {
  const now = Date.parse('2026-11-20T12:00:00.000Z');
  const at = (seconds: number): string =>
    relative(new Date(now - seconds * 1000).toISOString(), now);
  t.equal(at(0.5), 'now');
  t.equal(at(59), '59 s ago');
  t.equal(at(60), '1 min ago');
  t.equal(at(86_399), '23 h ago');
  t.equal(at(7 * 86_400 - 1), '6 d ago');
  t.equal(at(7 * 86_400), '2026-11-13');
  t.equal(at(-120), 'in 2 min');
  t.equal(relative('', now), NOTHING);
  t.equal(relative('0001-01-02T12:00:00Z', now), '0001-01-02');
});

t.test('a date is one of UTC, and an exact time names both zones', async (t) => {
  const now = Date.parse('2026-11-28T12:00:00Z');
  const before = process.env['TZ'];
  t.teardown(() => {
    process.env['TZ'] = before ?? 'Etc/UTC';
  });
  process.env['TZ'] = 'America/Los_Angeles';
  t.equal(relative('2026-10-25T00:30:00Z', now), '2026-10-25');
  const text = exact('2026-10-25T00:30:00.123Z');
  t.match(text, /^2026-10-25T00:30:00\.123Z \(Oct 24, 2026, 5:30:00\sPM PDT\)$/);
  process.env['TZ'] = 'Asia/Kolkata';
  t.equal(relative('2026-10-24T20:30:00Z', now), '2026-10-24');
});

t.test('writes the time that is left in whole seconds', async (t) => {
  check(t, (ms) => timeLeft(ms ?? 0), [
    [0, '1 s'],
    [1, '1 s'],
    [1_000, '1 s'],
    [1_001, '2 s'],
    [59_001, '1 min'],
    [60_001, '1 min 1 s'],
    [86_400_000, '1 d'],
  ]);
});
