import fc from 'fast-check';
import t from 'tap';
import { secretNames } from '../../../processors/redaction/secret-names.ts';
import { masked, redacted, redactedText } from './redacting.ts';

const KEYS = ['password', 'authorization', 'cookie', 'secret', 'token', 'api_key'];
const ONLY_KEYS = {
  keys: KEYS,
  rules: Object.fromEntries(
    ['api_keys', 'cloud_keys', 'jwt', 'private_keys', 'credit_cards', 'email', 'iban'].map(
      (rule) => [rule, 'off'],
    ),
  ),
};

t.test('an entry matches a name that is equal or ends with it as words', async (t) => {
  const names = secretNames([KEYS, ['account_key']]);
  const exact = ['token', 'TOKEN', 'api_key', 'apiKey', 'API-KEY', 'api.key', 'apikey'];
  for (const name of exact) t.same(names.match(name), { group: 0, isExact: true }, name);
  const longer = ['access_token', 'accessToken', 'x-api-key', 'http.header.authorization'];
  for (const name of longer) t.same(names.match(name), { group: 0, isExact: false }, name);
  t.same(names.match('AccountKey'), { group: 1, isExact: true });
  const ends = secretNames([['token'], ['access_token']]);
  t.same(ends.match('accessToken'), { group: 0, isExact: true }, 'also if it ends with another');
  t.same(ends.match('new_access_token'), { group: 0, isExact: false });
  const others = ['tokens', 'token_count', 'tokenizer', 'secretary', 'passwords', 'mytoken', ''];
  for (const name of others) t.equal(names.match(name), undefined, name);
  t.same(names.match(`${'a'.repeat(1000)}_token`), { group: 0, isExact: false });
});

t.test('an entry that is not ASCII matches however the name is escaped', async (t) => {
  for (const name of ['contraseña', 'contrase\\u00f1a', 'contrase\\u00F1a']) {
    const body = `{"events":[{"inputs":{"${name}":"x1"}}]}`;
    t.equal(
      redacted('native', body, { keys: ['contraseña'] }).toString(),
      body.replace('x1', '**'),
    );
  }
});

/** Texts in which only the values between the angle brackets are masked. */
function finds(texts: readonly string[]): void {
  for (const marked of texts) {
    t.test(`masks the value in ${marked.slice(0, 60)}`, async (t) => {
      const values = [...marked.matchAll(/⟨([\s\S]*?)⟩/g)].map(([, value = '']) => value);
      const text = marked.replaceAll(/[⟨⟩]/g, '');
      t.equal(redactedText(text, ONLY_KEYS), masked(text, ...values));
    });
  }
}

finds([
  '{"password":"⟨hunter2⟩","n":1}',
  '{"user":{"Password" : "⟨hun\\"ter2⟩"}}',
  "{'password': '⟨hunter2⟩', 'x': None}",
  "{'token': b'⟨abcdef⟩'}",
  "{'secret': ('⟨one1⟩', ['⟨two2⟩', ('⟨three3⟩',)]), 'other': 'four4'}",
  '{"secret":["⟨one1⟩",{"a":"⟨two2⟩","b":["⟨three3⟩"]}],"other":"four4"}',
  '{"access_token":"⟨abc⟩","expires_in":3600}',
  'password = "⟨hunter2⟩"',
  'const apiKey = `⟨hun\nter2⟩`;',
  'headers["Authorization"] = "⟨Bearer abc⟩"',
  'GET / HTTP/1.1\nAuthorization: Bearer ⟨abc.def⟩\nHost: x',
  'Cookie: ⟨a=b; c=d⟩\r\nHost: x',
  'curl -H "Authorization: Bearer ⟨abc⟩" -H \'X-Api-Key: ⟨def⟩\' x',
  'sent authorization: basic ⟨dXNlcjpwYXNz⟩ to it',
  'OPENAI_API_KEY=⟨abc-def⟩ node app',
  'password=⟨hunter2⟩\nuser=jane',
  'https://example.com/?a=1&token=⟨abc⟩&b=2#c',
  'Server=x;Password=⟨hunter2⟩;Port=1',
  '{"password":"⟨cut off⟩',
]);

t.test('keeps texts that only look like names with values', async (t) => {
  for (const text of [
    'the token is: valid',
    'tokens: "many"',
    '{"token_count":"12"}',
    '{"token":null,"secret":true,"password":""}',
    '{"max_token":12}',
    'def f(self, token: str, password: str)',
    'use token=token here',
    'secret  ingredients = "salt"',
    'if (token == other)',
  ]) {
    t.equal(redactedText(text, ONLY_KEYS), text);
  }
});

t.test(
  'a number in JSON within a text becomes a zero if the name is an entry itself',
  async (t) => {
    const text = '{"token": 12345, "access_token": 12345, "list": [1]}';
    t.equal(redactedText(text, ONLY_KEYS), '{"token": 0    , "access_token": 12345, "list": [1]}');
  },
);

t.test(
  'a number below a name that is an entry becomes a zero, whatever is around it',
  async (t) => {
    const text = (n: number) =>
      `{"access_token": {"a": 1, "password": ${n}, "b": {"secret": {"c": [${n}, {"d": ${n}}]}, "e": 2}, "f": 3}, "g": 4}`;
    t.equal(redactedText(text(5), ONLY_KEYS), text(0));
    const inner = (n: number) => JSON.stringify({ arguments: text(n) });
    t.equal(redactedText(inner(5), ONLY_KEYS), inner(0), 'in JSON within JSON');
    const own = '{"access_token": 5, "my_access_token": 5}';
    const both = { ...ONLY_KEYS, keys: ['token', 'access_token'] };
    t.equal(redactedText(own, both), own.replace('5', '0'), 'an entry that ends with another');
  },
);

t.test('a list within a text with more than 4,096 values is redacted as a whole', async (t) => {
  const text = (count: number, one: string) =>
    `{"token": [${Array(count).fill(one).join(',')}], "keep": 1}`;
  t.equal(redactedText(text(4_096, '7'), ONLY_KEYS), text(4_096, '0'));
  t.equal(redactedText(text(4_096, '"a"'), ONLY_KEYS), text(4_096, '"*"'));
  for (const count of [4_097, 20_000]) {
    const whole = `{"token": [${'*'.repeat(2 * count - 1)}], "keep": 1}`;
    t.equal(redactedText(text(count, '7'), ONLY_KEYS), whole, `${count}`);
  }
  const rates = text(4_097, '0.5').replace('token', 'time_per_token');
  t.equal(redactedText(rates, ONLY_KEYS), rates, 'numbers of another name stay');
  const open = redactedText(text(200_000, '12').slice(0, -15), ONLY_KEYS);
  t.notMatch(open, /\d/, 'without an end, too');
});

t.test('finds names in JSON within JSON within JSON', async (t) => {
  const inner = JSON.stringify({ password: 'hun"ter2', a: 1 });
  const text = JSON.stringify({ arguments: JSON.stringify({ body: inner }) });
  const left = JSON.parse(JSON.parse(redactedText(text, ONLY_KEYS)).arguments).body as string;
  t.match(JSON.parse(left), { password: /^\*+$/, a: 1 });
});

t.test(
  'names with escapes match, also in JSON whose quotes are escaped by their code',
  async (t) => {
    const body =
      '{"events":[{"inputs":{"pass\\u0077ord":"x1","a":"{\\u0022token\\u0022:\\u0022y2\\u0022}"}}]}';
    const result = redacted('native', body, ONLY_KEYS).toString();
    t.equal(result, body.replace('x1', '**').replace('y2', '**'));
  },
);

t.test('a value without an end goes on to the end of the text, however long it is', async (t) => {
  const value = 'x'.repeat(600_000);
  for (const text of [`{"token":"${value}"}`, `{"token":["${value}","${value}"]}`]) {
    t.notMatch(redactedText(text, ONLY_KEYS), 'xx');
  }
  const after = redactedText(`{"token":"${'x'.repeat(100_000)}","b":"keep"}`, ONLY_KEYS);
  t.match(after, /^\{"token":"\*+","b":"keep"\}$/);
});

t.test('the end of a value is looked for within 256 KiB', async (t) => {
  for (const [size, isKept] of [
    [200_000, true],
    [261_000, true],
    [262_200, false],
    [600_000, false],
  ] as const) {
    const text = redactedText(`{"token":"${'x'.repeat(size)}","b":"keep"}`, ONLY_KEYS);
    t.equal(text.includes('"b":"keep"'), isKept, `${size}`);
    t.notMatch(text, /xx/);
  }
});

t.test('no part of a long value behind a name is left in a long text', async () => {
  const separator = fc.constantFrom(...[' ', '", "', '\\', '\\\\', '\n', '/', '}', ']', 'é', '🙂']);
  const secret = fc.nat(1e9).map((n) => `s3cr${n}x`);
  const long = fc
    .array(fc.tuple(secret, separator), { minLength: 1, maxLength: 150 })
    .map((words) => words.flat().join(''));
  const list = fc.array(fc.oneof(long, secret, fc.record({ x: secret })), { maxLength: 80 });
  const value = fc.oneof(long, list, fc.record({ a: long, b: list }));
  const layout = fc.record({ indent: fc.constantFrom(0, 1, 6), levels: fc.nat(2) });
  const filler = fc.integer({ min: 2_000, max: 4_000 }).map((size) => 'x '.repeat(size / 2));
  fc.assert(
    fc.property(filler, value, layout, filler, (before, password, { indent, levels }, after) => {
      let json = JSON.stringify({ password }, null, indent);
      for (let level = 0; level < levels; level++) json = JSON.stringify({ json });
      return !redactedText(`${before}${json}${after}`, ONLY_KEYS).includes('s3cr');
    }),
    { numRuns: 300 },
  );
});
