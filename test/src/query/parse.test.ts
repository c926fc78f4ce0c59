import fc from 'fast-check';
import t from 'tap';
import { FIELD_NAMES, FIELDS } from '../../../src/query/fields.ts';
import { MAX_QUERY_LENGTH, MAX_QUERY_TERMS, parseQuery } from '../../../src/query/parse.ts';
import { printQuery } from '../../../src/query/print.ts';
import type { Query, QueryTerm } from '../../../src/query/query.ts';
import { QueryError } from '../../../src/query/query.ts';

const NOW = { ms: Date.UTC(2026, 10, 22, 12), ns: 0 };
const parse = (text: string) => parseQuery(text, NOW);
const only = (text: string): QueryTerm => {
  const [term, ...more] = parse(text).terms;
  if (term === undefined || more.length > 0) throw new Error(`${text} has not one term`);
  return term;
};
/** The query without the positions of its terms. */
const unplaced = ({ terms }: Query): unknown => terms.map((term) => ({ ...term, position: 0 }));
const equals = (text: string, isPrefix = false) => ({ text, isPrefix });

t.test('reads a query with terms of every form', async (t) => {
  const { terms } = parse(
    'status:error model:gpt-4o* latency:>2s cost:>=0.01 user:"Jane Doe" custom.env:prod -name:healthcheck "context length"',
  );
  t.match(terms, [
    { type: 'values', field: 'status', values: [equals('error')], negated: false, position: 0 },
    { type: 'values', field: 'model', values: [equals('gpt-4o', true)], position: 13 },
    { type: 'ranges', field: 'latency', ranges: [{ min: 2000, max: null, isAboveMin: true }] },
    { type: 'ranges', field: 'cost', ranges: [{ min: 0.01, max: null, isAboveMin: false }] },
    { type: 'values', field: 'user', values: [equals('Jane Doe')] },
    { type: 'values', field: 'custom', key: 'env', values: [equals('prod')] },
    { type: 'values', field: 'name', values: [equals('healthcheck')], negated: true },
    { type: 'text', text: 'context length', negated: false },
  ]);
});

t.test('reads no terms from an empty query or from spaces', async (t) => {
  for (const text of ['', ' ', '\t \n']) t.same(parse(text), { terms: [] });
});

t.test('reads lists, prefixes and quotes of text fields', async (t) => {
  const values = (text: string) => {
    const term = only(text);
    return term.type === 'values' ? term.values : term;
  };
  t.same(values('model:a,b'), [equals('a'), equals('b')]);
  t.same(values('model:"a,b",c*'), [equals('a,b'), equals('c', true)]);
  t.same(values('model:"a b"*'), [equals('a b', true)]);
  t.same(values('model:">a"*'), [equals('>a', true)]);
  t.same(values('model:"a*"'), [equals('a*')]);
  t.same(values('name:a"b'), [equals('a"b')]);
  t.same(values('name:https://host/x?y=1'), [equals('https://host/x?y=1')]);
  t.same(values(String.raw`name:"say \"hi\" to C:\\x\y"`), [
    equals(String.raw`say "hi" to C:\x\y`),
  ]);
  t.match(only('custom."a key":v'), { field: 'custom', key: 'a key' });
  t.match(only('custom.a.b:v'), { field: 'custom', key: 'a.b' });
  t.match(only('-custom.größe/m²:L'), { field: 'custom', key: 'größe/m²', negated: true });
});

t.test('reads words as text, also with "://" and with a colon behind a digit', async (t) => {
  const text = (query: string) => {
    const term = only(query);
    return term.type === 'text' ? term.text : term;
  };
  t.equal(text('timeout'), 'timeout');
  t.equal(text('https://host/path'), 'https://host/path');
  t.equal(text('10:30'), '10:30');
  t.equal(text('gpt*'), 'gpt', 'words match anywhere');
  t.equal(text('*'), '*');
  t.equal(text('"OR"'), 'OR');
  t.equal(text('"status:error"'), 'status:error');
  t.equal(text('https://host:8080/path'), 'https://host:8080/path');
  t.match(only('-timeout'), { type: 'text', text: 'timeout', negated: true });
});

t.test('refuses a word that looks like a field', async (t) => {
  for (const [text, position] of [
    ['(status:error)', 0],
    ['-(status:error)', 1],
    ['--status:error', 1],
    ['a größe:L', 2],
    ['::1', 0],
    ['{"a":1}', 0],
  ] as const) {
    t.throws(() => parse(text), { position, message: /quote the word to search for it/ }, text);
  }
  t.match(only('"(status:error)"'), { type: 'text', text: '(status:error)' });
});

t.test('refuses a text with a NUL', async (t) => {
  for (const text of ['\0', 'a\0b', '"a\0b"', '-\0']) {
    t.throws(() => parse(text), { message: /has a NUL/ }, JSON.stringify(text));
  }
});

t.test('reads numbers with units, comparisons, ranges and lists', async (t) => {
  const ranges = (text: string) => {
    const term = only(text);
    if (term.type !== 'ranges') return term;
    return term.ranges.map(({ min, max, isAboveMin, isBelowMax }) => [
      `${isAboveMin ? '(' : '['}${min}`,
      `${max}${isBelowMax ? ')' : ']'}`,
    ]);
  };
  t.same(ranges('latency:800ms'), [['[800', '800]']]);
  t.same(ranges('latency:1.5s..1m'), [['[1500', '60000]']]);
  t.same(ranges('ttft:<=1h'), [['[null', '3600000]']]);
  t.same(ranges('ttft:<1d'), [['[null', '86400000)']]);
  t.same(ranges('tokens:>10k'), [['(10000', 'null]']]);
  t.same(ranges('tokens:5..5'), [['[5', '5]']]);
  t.same(ranges('tokens:1,2'), [
    ['[1', '1]'],
    ['[2', '2]'],
  ]);
  t.same(ranges('cost:>=$0.01'), [['[0.01', 'null]']]);
  t.same(ranges('cost:1e-7'), [['[1e-7', '1e-7]']]);
  t.same(ranges('score.quality:>-0.5'), [['(-0.5', 'null]']]);
  t.match(only('score.label:good'), { type: 'values', values: [equals('good')] });
  t.match(only('score.label:"1"'), { type: 'values', values: [equals('1')] });
});

t.test('reads times: a day, a minute and a second are ranges, and now moves', async (t) => {
  const range = (text: string) => {
    const term = only(text);
    const [first] = term.type === 'times' ? term.ranges : [];
    const iso = (ms: number | undefined) => (ms === undefined ? null : new Date(ms).toISOString());
    return [iso(first?.from?.ms), iso(first?.to?.ms)];
  };
  const day = '2026-11-03T00:00:00.000Z';
  const next = '2026-11-04T00:00:00.000Z';
  t.same(range('start:2026-11-03'), [day, next]);
  t.same(range('start:>=2026-11-03'), [day, null]);
  t.same(range('start:>2026-11-03'), [next, null]);
  t.same(range('start:<2026-11-03'), [null, day]);
  t.same(range('start:<=2026-11-03'), [null, next]);
  t.same(range('start:2026-11-01..2026-11-03'), ['2026-11-01T00:00:00.000Z', next]);
  t.same(range('start:2026-11-03T14:05+02:00'), [
    '2026-11-03T12:05:00.000Z',
    '2026-11-03T12:06:00.000Z',
  ]);
  t.same(range('start:2026-11-03T14:05:07Z'), [
    '2026-11-03T14:05:07.000Z',
    '2026-11-03T14:05:08.000Z',
  ]);
  t.same(range('start:>=now-24h'), ['2026-11-21T12:00:00.000Z', null]);
  t.match(only('start:2026-11-03T14:05:07.999999999Z'), {
    ranges: [{ to: { ms: Date.UTC(2026, 10, 3, 14, 5, 8), ns: 0 } }],
  });
});

t.test('reads has: with every field, also custom with and without a key', async (t) => {
  for (const field of FIELD_NAMES) t.match(only(`has:${field}`), { type: 'has', field, key: null });
  t.match(only('-has:custom.env'), { type: 'has', field: 'custom', key: 'env', negated: true });
  t.match(only('has:custom."a key"'), { type: 'has', field: 'custom', key: 'a key' });
});

const MISTAKES: readonly [query: string, position: number, message: string][] = [
  ['status:error modle:gpt', 13, 'Unknown field "modle" at character 14; did you mean "model"?'],
  [
    'localhost:3000',
    0,
    'Unknown field "localhost" at character 1; quote the word to search for it as text',
  ],
  [
    'user.id:5',
    0,
    'Unknown field "user.id" at character 1; quote the word to search for it as text',
  ],
  ['custom:x', 0, 'Expected a name behind "custom." at character 1'],
  ['custom.:x', 0, 'Expected a name behind "custom." at character 1'],
  ['custom."a b" x', 12, 'Expected ":" at character 13'],
  ['user:', 5, 'Expected a value for "user" at character 6; -has:user finds traces without one'],
  ['user: x', 5, 'Expected a value for "user" at character 6; -has:user finds traces without one'],
  ['user:""', 5, 'Expected a value for "user" at character 6; -has:user finds traces without one'],
  ['user:a,', 7, 'Expected a value for "user" at character 8; -has:user finds traces without one'],
  ['user:"a', 5, 'The quote at character 6 is not closed'],
  [String.raw`user:"a\"`, 5, 'The quote at character 6 is not closed'],
  ['user:"a"b', 8, 'Expected a space or a comma at character 9'],
  ['"a"b', 3, 'Expected a space at character 4'],
  ['a ""', 2, 'The phrase at character 3 is empty'],
  ['a -', 2, 'Expected a term after "-" at character 3'],
  ['model:*', 6, 'Expected a prefix before "*" at character 7'],
  ['model:>a', 6, 'Expected a text at character 7: it has no order; quote the value'],
  ['tokens:"5"*', 7, 'Expected a value without "*" at character 8'],
  ['latency:>2', 9, 'Expected a duration with a unit, such as 800ms, 2s or 1m, at character 10'],
  [
    'latency:1s..x',
    12,
    'Expected a duration with a unit, such as 800ms, 2s or 1m, at character 13',
  ],
  ['tokens:5..1', 7, 'The range at character 8 is empty'],
  ['tokens:many', 7, 'Expected a number, such as 500 or 10k, at character 8'],
  ['cost:1e999', 5, 'Expected an amount in USD, such as 0.01, at character 6'],
  ['score.a:>x', 9, 'Expected a number at character 10'],
  [
    'start:yesterday',
    6,
    'Expected a time at character 7, such as 2026-11-03, 2026-11-03T14:00Z or now-24h',
  ],
  ['start:2026-11-04..2026-11-03', 6, 'The range at character 7 is empty'],
  [
    'start:2026-02-30',
    6,
    'Expected a time at character 7, such as 2026-11-03, 2026-11-03T14:00Z or now-24h',
  ],
  ['state:done', 6, '"done" at character 7 is none of running, finished, error, interrupted'],
  ['has:', 4, 'Expected a field behind "has:" at character 5'],
  ['has:usr', 4, 'Unknown field "usr" at character 5; did you mean "user"?'],
  ['has:user,model', 8, 'Expected a space at character 9'],
  ['é🙂 modle:x', 3, 'Unknown field "modle" at character 4; did you mean "model"?'],
  [
    '🙂 latency:2s..🙂',
    14,
    'Expected a duration with a unit, such as 800ms, 2s or 1m, at character 15',
  ],
];

t.test('names the position and the reason of a mistake', async (t) => {
  for (const [query, position, message] of MISTAKES) {
    t.throws(() => parse(query), { name: 'QueryError', position, message }, query);
  }
  for (const operator of ['AND', 'OR', 'NOT']) {
    t.throws(() => parse(`a ${operator} b`), { position: 2, message: /is no operator/ }, operator);
  }
});

t.test(
  `takes ${MAX_QUERY_LENGTH} characters and ${MAX_QUERY_TERMS} terms, and not one more`,
  async (t) => {
    const longest = 'x'.repeat(MAX_QUERY_LENGTH);
    t.match(only(longest), { type: 'text', text: longest });
    t.throws(() => parse(`${longest}x`), { position: MAX_QUERY_LENGTH, message: /more than 2048/ });
    const emojis = '🙂'.repeat(MAX_QUERY_LENGTH);
    t.match(only(emojis), { type: 'text', text: emojis });
    t.throws(() => parse(`${emojis}x`), { position: MAX_QUERY_LENGTH, message: /more than 2048/ });
    const most = Array.from({ length: MAX_QUERY_TERMS }, () => 'a').join(' ');
    t.equal(parse(most).terms.length, MAX_QUERY_TERMS);
    t.throws(() => parse(`${most} b`), {
      position: most.length + 1,
      message: /more than 32 terms/,
    });
  },
);

t.test('ends in linear time on hostile text', async (t) => {
  for (const text of ['"', 'user:"', 'custom."'].map((start) => start + '\\'.repeat(2000))) {
    t.throws(() => parse(text), QueryError);
  }
});

const anyText = fc.oneof(fc.string({ minLength: 1 }), fc.string({ minLength: 1, unit: 'binary' }));
const anyKey = fc.oneof(fc.stringMatching(/^[\w.-]+$/), fc.string({ minLength: 1 }));
const anyNumber = fc.double({ noNaN: true, noDefaultInfinity: true, min: 0, max: 1e15 });

const anyTerm: fc.Arbitrary<string> = fc
  .record({ field: fc.constantFrom(...FIELD_NAMES), key: anyKey, negated: fc.boolean() })
  .chain(({ field, key, negated }) => {
    const { type, isKeyed, choices = [] } = FIELDS[field];
    const quote = (text: string) => `"${text.replaceAll(/["\\]/g, '\\$&')}"`;
    const name = `${negated ? '-' : ''}${field}${isKeyed === true ? `.${quote(key)}` : ''}`;
    const number = anyNumber.map((n) => (type === 'duration' ? `${n}ms` : `${n}`));
    const operator = fc.constantFrom('', '>', '>=', '<', '<=');
    if (type === 'choice') return fc.constantFrom(...choices).map((value) => `${name}:${value}`);
    if (type === 'time') {
      return fc
        .tuple(operator, fc.constantFrom('2026-11-03', 'now-2h', '2026-11-03T10:00:00.5Z'))
        .map(([sign, time]) => `${name}:${sign}${time}`);
    }
    if (type === 'text') {
      return fc
        .array(fc.tuple(anyText, fc.constantFrom('', '*')), { minLength: 1, maxLength: 3 })
        .map((values) => `${name}:${values.map(([text, star]) => quote(text) + star).join(',')}`);
    }
    return fc.tuple(operator, number).map(([sign, value]) => `${name}:${sign}${value}`);
  });

t.test('prints a query that parses to the same terms', async () => {
  const anyQuery = fc
    .array(
      fc.oneof(
        anyTerm,
        anyText.map((text) => `"${text.replaceAll('\0', '').replaceAll(/["\\]/g, '\\$&')}x"`),
      ),
      {
        maxLength: 8,
      },
    )
    .map((terms) => terms.join(' '))
    .filter((text) => text.length <= 1000);
  fc.assert(
    fc.property(anyQuery, (text) => {
      const query = parse(text);
      const printed = printQuery(query);
      const again = parse(printed);
      return (
        JSON.stringify(unplaced(again)) === JSON.stringify(unplaced(query)) &&
        printQuery(again) === printed
      );
    }),
    { numRuns: 500 },
  );
});

t.test('prints a value that begins like the rest of a URL in quotes', async (t) => {
  const printed = printQuery(parse('-error:"//"," " name:"//a"'));
  t.equal(printed, '-error:"//"," " name:"//a"');
  t.equal(printQuery(parse(printed)), printed);
});

t.test('answers any text with terms or with a position inside it', async () => {
  const pieces = fc.constantFrom(
    ...['"', '\\', ':', ',', '-', '*', '>', '..', ' ', 'a', 'user:', 'start:', 'latency:', '1s'],
    ...['custom.', 'has:', 'now', 'score.x:', '://', '\u0000', '😀', '2026-11-03'],
  );
  const anyLine = fc.array(pieces, { maxLength: 30 }).map((parts) => parts.join(''));
  fc.assert(
    fc.property(fc.oneof(anyLine, fc.string({ unit: 'binary' })), (text) => {
      try {
        const query = parse(text);
        return (
          JSON.stringify(unplaced(parse(printQuery(query)))) === JSON.stringify(unplaced(query))
        );
      } catch (error) {
        return error instanceof QueryError && error.position >= 0 && error.position <= text.length;
      }
    }),
    { numRuns: 2000 },
  );
});
