import t from 'tap';
import { textOfJson } from '../../../../src/store/search/json-text.ts';
import {
  branchesOf,
  labelTokens,
  phraseOf,
  wordTokens,
} from '../../../../src/store/search/tokens.ts';
import {
  firstWords,
  lineOfWords,
  WORD_CHARACTERS,
  wordsOf,
} from '../../../../src/store/search/words.ts';

t.test('a text is split into words of letters and digits', async (t) => {
  const words: Record<string, string[]> = {
    'Hello, World!': ['hello', 'world'],
    'get_weather(1.5)': ['get', 'weather', '1', '5'],
    'gpt-4o': ['gpt', '4o'],
    'naïve ÅNGSTRÖM': ['naïve', 'ångström'],
    ﬁne: ['fine'],
    東京タワー: ['東', '京', 'タ', 'ワ', 'ー'],
    ab東cd: ['ab', '東', 'cd'],
    '\ud800 lone': ['lone'],
    '— … "': [],
  };
  for (const [text, expected] of Object.entries(words)) t.same(wordsOf(text), expected, text);
  t.same(wordsOf('x'.repeat(WORD_CHARACTERS)), ['x'.repeat(WORD_CHARACTERS)]);
  t.same(wordsOf('x'.repeat(WORD_CHARACTERS + 1)), ['x'.repeat(WORD_CHARACTERS)]);
});

t.test('a word counts if its last byte is within the limit', async (t) => {
  const cases: [text: string, bytes: number, words: string[]][] = [
    ['abc def', 7, ['abc', 'def']],
    ['abc def', 6, ['abc']],
    ['abc def', 4, ['abc']],
    ['abc def', 3, ['abc']],
    ['abc def', 2, []],
    // é has two bytes: the limit divides the character.
    ['aé b', 3, ['aé']],
    ['aé b', 2, []],
    ['x é', 3, ['x']],
    ['東京都', 9, ['東', '京', '都']],
    ['東京都', 8, ['東', '京']],
    ['東京都', 6, ['東', '京']],
    ['abc東', 3, ['abc']],
    ['a 😀 b', 6, ['a']],
    ['a 😀 b', 8, ['a', 'b']],
    // A combining mark belongs to the letter before it.
    ['ab e\u0301', 4, ['ab']],
    ['', 4, []],
  ];
  for (const [text, bytes, words] of cases)
    t.same(firstWords(text, bytes), words, `${text} ${bytes}`);
});

t.test('the text of a JSON value is its strings', async (t) => {
  const texts: [json: string, text: string][] = [
    ['"plain"', 'plain'],
    ['{"key":"value","n":12,"ok":true,"none":null}', 'value'],
    ['{"a" : {"b":["one",{"c":"two"}]}}', 'one two'],
    ['["a","b"]', 'a b'],
    ['"say \\"hi\\" \\n\\t\\u00e9\\/"', 'say "hi" \n\té/'],
    [JSON.stringify(JSON.stringify({ key: 'inner' })), 'inner'],
    [JSON.stringify(' \n[{"key":"inner"}]'), 'inner'],
    [JSON.stringify('[INST] no "JSON"'), '[INST] no "JSON"'],
    ['"ends \\\\"', 'ends \\'],
    ['12', ''],
    ['null', ''],
    ['', ''],
    // Broken off.
    ['{"a":"be', 'be'],
    ['"cut \\u00', 'cut '],
    ['"cut \\', 'cut '],
    ['{"a', 'a'],
    ['not JSON', ''],
  ];
  for (const [json, text] of texts) t.equal(textOfJson(json, 1000), text, json);
});

t.test('deep and large values are read without recursion, and only as far as needed', async (t) => {
  const deep = `${'['.repeat(200_000)}"x"${']'.repeat(200_000)}`;
  t.equal(textOfJson(deep, 10), 'x');
  const many = JSON.stringify(Array.from({ length: 10_000 }, () => 'word'));
  t.ok(textOfJson(many, 100).length < 200);
  t.same(firstWords(textOfJson(many, 100), 100).length, 20);
});

t.test('every text that matches has the tokens of a branch', async (t) => {
  const labels = {
    texts: ['Chat Completion', '{"k":"say \\"hi\\""}'],
    ids: ['trace-1', ':ab12cd'],
  };
  const words = wordsOf('The refund policy');
  const tokens = new Set([...labelTokens('p', labels), ...wordTokens('p', words)]);
  const isFound = (text: string, project = 'p') =>
    branchesOf(project, text, JSON.stringify(text).slice(1, -1))?.some((branch) =>
      branch.every((token) => tokens.has(token)),
    );
  for (const text of [
    'hat COMP',
    'refund',
    'refund policy',
    'say "hi"',
    'trace',
    'trace-1',
    ':ab1',
    'tra',
  ]) {
    t.equal(isFound(text), true, text);
  }
  for (const text of ['refunds', 'completed', 'race-', 'other-2x'])
    t.equal(isFound(text), false, text);
  t.equal(isFound('refund', 'other'), false, 'another project');
  t.equal(isFound('hi'), undefined, 'too short for the index');
  const long = labelTokens('p', { texts: ['x'.repeat(5000)], ids: [] });
  t.ok(branchesOf('p', 'absent', 'absent')?.some((branch) => branch.every((one) => long.has(one))));
});

t.test('a phrase is a part of the words', async (t) => {
  const line = lineOfWords(wordsOf('A refund, policy'));
  t.ok(line.includes(phraseOf('REFUND policy') ?? '?'));
  t.notOk(line.includes(phraseOf('fund') ?? '?'));
  t.equal(phraseOf('?!'), undefined);
  t.equal(lineOfWords([]), '');
});
