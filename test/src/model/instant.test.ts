import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import t from 'tap';
import {
  formatInstant,
  formatMs,
  instantFromNumber,
  instantFromUnixNanos,
  parseInstant,
  unixNanosOf,
} from '../../../src/model/instant.ts';
import type { Instant } from '../../../src/model/observation.ts';

const MIN_MS = Date.UTC(0, 0, 1) - Date.UTC(0, 0, 1) - 62_167_219_200_000;
const MAX_MS = 253_402_300_799_999;
const instants = fc.record(
  {
    ms: fc.integer({ min: MIN_MS, max: MAX_MS }),
    ns: fc.integer({ min: 0, max: 999_999 }),
  },
  { noNullPrototype: true },
);

t.test('reads extended dates and times of ISO 8601', (t) => {
  const good: [text: string, ms: number, ns: number][] = [
    ['2024-01-01T00:00:00Z', 1704067200000, 0],
    ['2024-01-01T00:00:00', 1704067200000, 0],
    ['2024-01-01T00:00:00.5', 1704067200500, 0],
    ['2024-01-01T00:00:00,5Z', 1704067200500, 0],
    ['2024-01-01T00:00:00.123456789Z', 1704067200123, 456789],
    ['2024-01-01T00:00:00.1234567899999Z', 1704067200123, 456789],
    [`2024-01-01T00:00:00.${'9'.repeat(30)}Z`, 1704067200999, 999999],
    ['2024-02-29T23:59:59-12:00', Date.UTC(2024, 2, 1, 11, 59, 59), 0],
    ['2024-01-01T05:30:00+05:30', 1704067200000, 0],
    ['2024-01-01T05:00:00+05', 1704067200000, 0],
    ['2024-01-01T00:00:00-00:00', 1704067200000, 0],
    ['2000-02-29T00:00:00Z', Date.UTC(2000, 1, 29), 0],
    ['1969-12-31T23:59:59.999999999Z', -1, 999999],
    ['0000-01-01T00:00:00Z', MIN_MS, 0],
    ['9999-12-31T23:59:59.999999999Z', MAX_MS, 999999],
  ];
  for (const [text, ms, ns] of good) t.same(parseInstant(text), { ms, ns }, text);
  t.end();
});

t.test('reads a space in place of the T only if a caller takes it', (t) => {
  const instant = { ms: 1704067200000, ns: 500_000 };
  t.same(parseInstant('2024-01-01 00:00:00.0005Z', true), instant);
  t.same(parseInstant('2024-01-01T00:00:00.0005', true), instant);
  t.equal(parseInstant('2024-01-01 00:00:00Z'), undefined);
  t.equal(parseInstant('2024-01-01_00:00:00Z', true), undefined);
  t.end();
});

t.test('rejects all other texts', (t) => {
  const bad = [
    ...['', ' ', '1', '1704067200', 'Jan 1 2024', '2024', '2024-01-01', '2024-01-01T00:00Z'],
    ...[
      '2024-02-30T00:00:00Z',
      '2023-02-29T00:00:00Z',
      '1900-02-29T00:00:00Z',
      '2024-04-31T00:00:00Z',
    ],
    ...[
      '2024-13-01T00:00:00Z',
      '2024-00-10T00:00:00Z',
      '2024-01-00T00:00:00Z',
      '2024-01-32T00:00:00Z',
    ],
    ...[
      '2024-01-01T25:00:00Z',
      '2024-01-01T24:00:00Z',
      '2024-01-01T00:60:00Z',
      '2024-01-01T00:00:60Z',
    ],
    ...[
      '2024-01-01T00:00:61Z',
      '2024-01-01T00:00:00.Z',
      '2024-01-01T00:00:00ZZ',
      '2024-01-01T00:00:00Z\n',
    ],
    ...['2024-01-01T00:00:00+25:00', '2024-01-01T00:00:00+00:60', '2024-01-01T00:00:00+0000'],
    ...[
      '2024-01-01T00:00:00+1',
      '2024-01-01T00:00:00+',
      '2024-01-01T00:00:00+01:0',
      '2024-01-01T00:00:00z',
    ],
    ...['2024-01-01 00:00:00Z', '2024-01-01t00:00:00Z', '20240101T000000Z', '2024-W01-1T00:00:00Z'],
    ...[
      '2024-1-1T00:00:00Z',
      '-2024-01-01T00:00:00Z',
      '+002024-01-01T00:00:00Z',
      ' 2024-01-01T00:00:00Z',
    ],
    ...['２０２４-01-01T00:00:00Z', '2024-01-01T00:00:00é', '2024-01-01T00:00:00.١Z'],
    `2024-01-01T00:00:00.${'9'.repeat(31)}Z`,
    '0000-01-01T00:00:00+00:01',
    '9999-12-31T23:59:59-00:01',
  ];
  for (const text of bad)
    t.equal(parseInstant(text), undefined, Buffer.from(text).toString('latin1'));
  t.equal(
    parseInstant(`2024-01-01T00:00:00.${'0'.repeat(1_000_000)}!`),
    undefined,
    'a long fraction',
  );
  t.end();
});

t.test('reads mutated dates as a regular expression and the calendar do', (t) => {
  const edits = fc.array(
    fc.record({ at: fc.nat({ max: 34 }), text: fc.constantFrom(...'0123456789-:.TZ+, ', '') }),
    { maxLength: 2 },
  );
  const zone = fc.constantFrom('', 'Z', '+00:00', '-11:30', '+14', '+24:00', '+12:60');
  const fraction = fc.constantFrom('', '.1', '.123456', ',000000001', '.1234567891');
  fc.assert(
    fc.property(instants, fraction, zone, edits, (instant, fraction, zone, edits) => {
      let text = new Date(instant.ms).toISOString().slice(0, 19) + fraction + zone;
      for (const edit of edits) text = text.slice(0, edit.at) + edit.text + text.slice(edit.at + 1);
      return isDeepStrictEqual(parseInstant(text), reference(text));
    }),
    { numRuns: 2000 },
  );
  t.pass('2,000 texts');
  t.end();
});

/** An oracle for the same grammar: a regular expression, and Date for the calendar. */
function reference(text: string): Instant | undefined {
  const parts =
    /^(\d{4}-\d\d-\d\dT)(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,30}))?(?:Z|([+-])(\d\d)(?::(\d\d))?)?$/.exec(
      text,
    );
  if (parts === null) return undefined;
  const [
    ,
    date = '',
    hour,
    minute,
    second,
    fraction = '',
    sign,
    offsetHour = '0',
    offsetMinute = '0',
  ] = parts;
  if (Number(hour) > 23 || Number(offsetHour) > 23 || Number(offsetMinute) > 59) return undefined;
  const local = new Date(`${date}${hour}:${minute}:${second}.000Z`);
  // Date rolls invalid dates over and prints another one.
  if (Number.isNaN(local.getTime()) || !local.toISOString().startsWith(date)) return undefined;
  const nanos = Number(fraction.slice(0, 9).padEnd(9, '0'));
  const offset =
    (sign === '-' ? -1 : 1) * (Number(offsetHour) * 60 + Number(offsetMinute)) * 60_000;
  const ms = local.getTime() - offset + Math.floor(nanos / 1e6);
  return ms < MIN_MS || ms > MAX_MS ? undefined : { ms, ns: nanos % 1e6 };
}

t.test('reads a formatted instant back as the same instant', (t) => {
  fc.assert(
    fc.property(instants, (instant) => {
      return isDeepStrictEqual(parseInstant(formatInstant(instant)), instant);
    }),
    { numRuns: 500 },
  );
  t.equal(formatInstant({ ms: 0, ns: 0 }), '1970-01-01T00:00:00.000Z');
  t.equal(formatInstant({ ms: -1, ns: 1000 }), '1969-12-31T23:59:59.999001Z');
  t.equal(formatInstant({ ms: 1704067200123, ns: 456789 }), '2024-01-01T00:00:00.123456789Z');
  t.equal(formatInstant({ ms: MIN_MS, ns: 1 }), '0000-01-01T00:00:00.000000001Z');
  t.end();
});

t.test('formats milliseconds as JavaScript does, whatever minutes came before', (t) => {
  const nearby = fc
    .tuple(fc.integer({ min: -2, max: 2 }), fc.nat(2), fc.nat(59_999))
    .map(([turn, minute, ms]) => 1_704_067_200_000 + (turn * 64 + minute) * 60_000 + ms);
  const times = fc.array(fc.oneof(nearby, fc.integer({ min: MIN_MS, max: MAX_MS })));
  fc.assert(
    fc.property(times, (all) => {
      t.same(
        all.map(formatMs),
        all.map((ms) => new Date(ms).toISOString()),
      );
    }),
  );
  t.end();
});

t.test('reads seconds and milliseconds since the epoch', (t) => {
  const good: [text: string, ms: number, ns: number][] = [
    ['1704067200000', 1704067200000, 0],
    ['1704067200000.123456789', 1704067200000, 123456],
    ['1.7040672e12', 1704067200000, 0],
    ['253402300799999', MAX_MS, 0],
    ['1000000000000', 1000000000000, 0],
    ['1795319960', 1795319960000, 0],
    ['1795319960.565916', 1795319960565, 916000],
    ['1795319960.5', 1795319960500, 0],
    ['1795319960.0000000019', 1795319960000, 1],
    ['1.795319960e9', 1795319960000, 0],
    ['1000000000', 1000000000000, 0],
    ['19999999999.999', 19999999999999, 0],
  ];
  for (const [text, ms, ns] of good) t.same(instantFromNumber(text), { ms, ns }, text);
  const implausible = ['0', '-0', '5', '-1', '999999999', '999999999.9', '20000000000'];
  const outside = ['999999999999', '253402300800000', '-1795319960', '1e300', '1e999', '1e-9'];
  for (const text of [...implausible, ...outside, '9'.repeat(100_000)]) {
    t.equal(instantFromNumber(text), undefined, text.slice(0, 20));
  }
  t.end();
});

t.test('reads nanoseconds in two halves exactly', (t) => {
  const half = fc.integer({ min: 0, max: 0xffffffff });
  fc.assert(
    fc.property(half, half, (hi, lo) => {
      const instant = instantFromUnixNanos(hi, lo);
      const exact = unixNanosOf(instant) === (BigInt(hi) << 32n) + BigInt(lo);
      return exact && instant.ns >= 0 && instant.ns < 1_000_000;
    }),
    { numRuns: 500 },
  );
  t.pass('500 values');
  t.end();
});
