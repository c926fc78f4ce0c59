import t from 'tap';
import { literalPrefix, patternFinder } from '../../../processors/redaction/patterns.ts';
import { redacted, redactedText } from './redacting.ts';

t.test('redacts the matches of a pattern by its own action', async (t) => {
  const patterns = [
    { name: 'ticket', pattern: 'TCK-[0-9]{6}', action: 'remove' },
    { name: 'word', pattern: '(?i)\\bsesame\\b' },
  ];
  const text = 'TCK-123456 TCK-12345 Sesame sesames';
  t.equal(redactedText(text, { patterns }), '[REMOVED] TCK-12345 ****** sesames');
});

t.test('finds matches in JSON within JSON, and behind escapes', async (t) => {
  const patterns = [{ name: 'ticket', pattern: 'TCK-[0-9]+' }];
  const body = '{"events":[{"inputs":"{\\"a\\":\\"TC\\\\u004b-1\\"}"},{"name":"T\\u0043K-2"}]}';
  const result = redacted('native', body, { patterns }).toString();
  t.notMatch(result, /004b|0043|TCK/);
  t.doesNotThrow(() => JSON.parse(JSON.parse(result).events[0].inputs));
});

t.test('finds a match with slashes that JSON spells as escapes', async (t) => {
  const patterns = [{ name: 'host', pattern: 'https://intra[a-z./]*' }];
  const body = String.raw`{"events":[{"inputs":"see https:\/\/intra.example\/x"}]}`;
  const result = redacted('native', body, { patterns }).toString();
  t.notMatch(result, /intra/);
  t.doesNotThrow(() => JSON.parse(result));
});

t.test('a pattern without a plain beginning is run over every text and name', async (t) => {
  const patterns = [{ name: 'any', pattern: '[a-z]+[0-9]{4}' }];
  const result = redacted(
    'native',
    { events: [{ name: 'abc1234', inputs: { xyz9876: 1 } }] },
    { patterns },
  );
  t.equal(result.toString(), '{"events":[{"name":"*******","inputs":{"*******":1}}]}');
});

t.test('a match across two pieces of a long text is found, up to 4,096 characters', async (t) => {
  const find = patternFinder('x{3,}');
  for (const [before, length] of [
    [16_380, 10],
    [12_288, 4_096],
    [16_384, 3],
    [16_382, 4_096],
  ] as const) {
    const text = `${'a'.repeat(before)}${'x'.repeat(length)}b`;
    const covered = new Set<number>();
    for (const found of find(text)) {
      for (let i = found?.start ?? 0; i < (found?.end ?? 0); i++) covered.add(i);
    }
    t.equal(covered.size, length, `${length} at ${before}`);
  }
});

t.test('a pattern that backtracking engines cannot finish takes linear time', async (t) => {
  const patterns = [{ name: 'evil', pattern: '(a+)+b' }];
  const text = 'a'.repeat(50_000);
  t.equal(redactedText(text, { patterns }), text);
});

t.test('tells the plain text that a pattern starts with', async (t) => {
  const cases: Record<string, string | undefined> = {
    'TCK-[0-9]{6}': 'TCK-',
    'user id: \\d+': 'user id: ',
    'abc?d': 'ab',
    'abc+': 'ab',
    'ab*': undefined,
    '(?i)abc': undefined,
    'abc|def': undefined,
    '[a-z]+': undefined,
    'a.c': undefined,
    'ab.c': 'ab',
    'https://internal': 'https:',
    '/api/[0-9]+': undefined,
  };
  for (const [source, prefix] of Object.entries(cases))
    t.equal(literalPrefix(source), prefix, source);
});
