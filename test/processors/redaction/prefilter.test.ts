import fc from 'fast-check';
import t from 'tap';
import { Bucket, TableBuilder } from '../../../processors/redaction/anchor-tables.ts';
import { createByteScanner, MAX_SCAN_BYTES } from '../../../processors/redaction/byte-scanner.ts';
import { Candidates, Cause } from '../../../processors/redaction/candidates.ts';
import { CHUNK_BYTES, prefilter } from '../../../processors/redaction/prefilter.ts';
import { secretNames } from '../../../processors/redaction/secret-names.ts';

const KIND = 4;
const NAME = 8;
const OTHER = 16;

function tables() {
  const builder = new TableBuilder();
  builder.addRuns();
  for (const anchor of '-\x12') {
    builder.add(Bucket.KEY, 'sk', anchor, KIND);
    builder.add(Bucket.KEY, '8', anchor, KIND);
  }
  builder.addBeforeClosers('en', ':', NAME);
  builder.add(Bucket.OTHER, 'AI', 'z', OTHER);
  return builder.tables;
}

/** No finding has two separators in a row. */
const RUN = /(?:[0-9A-Z]|(?<![ -])[ -]){15,}|[0-9]{13,}/g;

/** The same search, byte by byte. */
function expected(text: string): { anchors: number[]; runs: number[] } {
  const anchors: number[] = [];
  for (let at = 0; at < text.length; at++) {
    const before = text.slice(0, at);
    const isKey = ['-', '\x12'].includes(text[at] ?? '') && /(?:sk|[\s\S]8)$/.test(before);
    const isName = text[at] === ':' && /en["'`\] \t\n\r\\]*$/.test(before);
    if (isKey || isName || text.startsWith('AIz', at - 2)) anchors.push(at);
  }
  const runs = Array.from(text.matchAll(RUN), ({ index }) => index);
  return { anchors, runs };
}

const bytes = fc
  .array(
    fc.oneof(
      {
        weight: 3,
        arbitrary: fc.constantFrom(...'sk8-:"en A \\\x12\x00\xff'.split(''), 'AIz', 'en":'),
      },
      { weight: 2, arbitrary: fc.string({ unit: fc.constantFrom(...'09AZ -'), maxLength: 20 }) },
      { weight: 1, arbitrary: fc.string({ unit: fc.constantFrom(...'abcz.,{}'), maxLength: 20 }) },
    ),
    { maxLength: 60 },
  )
  .map((parts) => `..${parts.join('')}`);

t.test('the byte scanner finds what a search byte by byte finds', async () => {
  const scanner = createByteScanner(tables());
  fc.assert(
    fc.property(bytes, fc.nat(40), (text, cut) => {
      const body = Buffer.from(text, 'latin1');
      const middle = Math.min(cut, body.length);
      const anchors: number[] = [];
      const runs: number[] = [];
      for (const [start, end] of [
        [0, middle],
        [middle, body.length],
      ] as const) {
        scanner.scan(body, start, end, (at, isRun) => (isRun ? runs : anchors).push(at));
      }
      const want = expected(text);
      // Every run is reported somewhere in it, and nothing else is.
      const areRuns = want.runs.every((within) => {
        const start = within - (/[0-9A-Z -]*$/.exec(text.slice(0, within))?.[0].length ?? 0);
        const end = within + (/^[0-9A-Z -]+/.exec(text.slice(within))?.[0].length ?? 0);
        return runs.some((at) => at >= start && at < end);
      });
      return JSON.stringify(anchors) === JSON.stringify(want.anchors) && areRuns;
    }),
    { numRuns: 2_000 },
  );
});

t.test(
  'the byte scanner finds the shortest runs at every offset, and across two parts',
  async (t) => {
    const scanner = createByteScanner(tables());
    const runsIn = (text: string, middle: number): number => {
      const body = Buffer.from(text);
      let runs = 0;
      const count = (_at: number, isRun: boolean) => (runs += isRun ? 1 : 0);
      scanner.scan(body, 0, middle, count);
      scanner.scan(body, middle, body.length, count);
      return runs;
    };
    const shortest = [
      '4222222222222',
      'NO9386011117947',
      '34-20-10-00-1-AA',
      'AKIAIOSFODNN7EXAMPLE',
    ];
    const tooShort = ['422222222222', 'NO938601111794', '--------------', ' '.repeat(14)];
    for (let offset = 0; offset < 48; offset++) {
      const around = (run: string) => `${'"'.repeat(offset)}${run}${'"'.repeat(48)}`;
      for (const run of shortest) {
        const missed = [
          0,
          offset,
          offset + 1,
          offset + 12,
          offset + run.length,
          offset + 40,
        ].filter((middle) => runsIn(around(run), middle) === 0);
        t.same(missed, [], `${run} at ${offset}`);
      }
      for (const run of tooShort)
        t.equal(runsIn(around(run), offset + 8), 0, `${run} at ${offset}`);
    }
  },
);

t.test('long rows of spaces and hyphens are no runs', async (t) => {
  const scanner = createByteScanner(tables());
  for (const row of [' '.repeat(100), `|${'-'.repeat(98)}|`, `a${' '.repeat(98)}b`]) {
    scanner.scan(Buffer.from(row), 0, row.length, (at) => t.fail(`${row} at ${at}`));
  }
});

t.test('the byte scanner takes a part of its greatest size', async (t) => {
  const scanner = createByteScanner(tables());
  const body = Buffer.from('8-'.repeat(MAX_SCAN_BYTES));
  let anchors = 0;
  scanner.scan(body, 0, MAX_SCAN_BYTES, (_at, isRun) => (anchors += isRun ? 0 : 1));
  t.equal(anchors, MAX_SCAN_BYTES / 2);
});

const ALL_CAUSES = 255 & ~Cause.PATTERN;

function candidatesIn(text: string, literals: readonly string[] = []): Candidates {
  const body = Buffer.from(text);
  const names = secretNames([['password', 'api_key']]);
  const { scan } = prefilter('native', { causes: ALL_CAUSES, names, literals });
  const candidates = new Candidates();
  for (let start = 0; start < body.length; start += CHUNK_BYTES) {
    scan(body, start, Math.min(body.length, start + CHUNK_BYTES), candidates);
  }
  candidates.sort();
  return candidates;
}

t.test('a secret among runs that are none is found, wherever it is', async () => {
  const secrets = ['4111111111111111', 'DE89 3704 0044 0532 0130 00', 'AKIAIOSFODNN7EXAMPLE'];
  const filling = fc.constantFrom('1768478398000000000 ', '0.12345678901234567,', 'ABC 1234-');
  fc.assert(
    fc.property(
      fc.constantFrom(...secrets),
      fc.array(filling, { maxLength: 80 }),
      fc.array(filling, { maxLength: 80 }),
      (secret, before, after) => {
        const start = before.join('');
        const body = Buffer.from(`${start}|${secret}|${after.join('')}`);
        const causes = { causes: Cause.RUN, names: secretNames([]), literals: [] };
        const filter = prefilter('native', causes);
        const candidates = new Candidates();
        const middle = Math.min(100, body.length);
        filter.scan(body, 0, middle, candidates);
        filter.scan(body, middle, body.length, candidates);
        candidates.sort();
        return candidates.has(start.length, start.length + secret.length + 2);
      },
    ),
  );
});

t.test('runs that are no secrets are searched once, however dense they are', async (t) => {
  const bytes = Buffer.from('1768478398000000000 '.repeat(3_000));
  let read = 0;
  const original = bytes.toString.bind(bytes);
  bytes.toString = (encoding, start = 0, end = 0) => {
    read += end - start;
    return original(encoding, start, end);
  };
  const filter = prefilter('native', { causes: Cause.RUN, names: secretNames([]), literals: [] });
  const candidates = new Candidates();
  filter.scan(bytes, 0, bytes.length, candidates);
  t.equal(candidates.count, 0);
  t.ok(read < 2 * bytes.length, `${read} of ${bytes.length} bytes`);
});

t.test('ordinary text has no candidates', async (t) => {
  for (const text of [
    'Prose with numbers, 123456, 2026-01-02T03:04:05.123456Z and UPPER CASE.',
    '{"usage":{"input_tokens":12,"token_count":"x"},"model":"small-1-2026-01-02"}',
    '@Decorator() class A { x = a.b; } // https://example.com/a-b_c?d=e',
    '<p>\\u003cb\\u003e \\u0026 \\u0022 \\u0027 \\n \\u00e9 \\u4e2d',
  ]) {
    t.equal(candidatesIn(text).count, 0, text);
  }
});

t.test('a text that a pattern starts with is found across two chunks', async (t) => {
  for (const at of [0, CHUNK_BYTES - 4, CHUNK_BYTES - 1, CHUNK_BYTES]) {
    const text = `${'x'.repeat(at)}TCK-1`;
    t.equal(candidatesIn(text, ['TCK-']).causesIn(at, at + 1), Cause.PATTERN, String(at));
  }
});

t.test('a place stands for all of its cause in the 256 bytes behind it', async (t) => {
  const candidates = candidatesIn('a@b.co '.repeat(100));
  t.equal(candidates.count, 3);
  t.equal(candidates.causesIn(300, 301), Cause.EMAIL);
  t.ok(candidates.has(255, 256));
  t.notOk(new Candidates().has(0, 1000));
});
