import fc from 'fast-check';
import t from 'tap';
import { mergeCustomFields } from '../../../src/model/custom-fields.ts';

const layer = (value: object) => Object.entries(value);
const plain = (merged: Record<string, string> | null) => (merged === null ? null : { ...merged });
const isKept = (key: string) => mergeCustomFields([[[key, 'value']]]) !== null;

t.test('turns scalars into strings and ignores all other values', (t) => {
  const merged = mergeCustomFields([
    layer({ a: 'x', b: 1, c: 1.5, d: true, e: false, f: -0, g: 1e21, h: 10n, i: ' x ' }),
    layer({ j: null, k: undefined, l: {}, m: [], n: '', o: ' \t\n', p: [1] }),
  ]);
  t.same(plain(merged), {
    ...{ a: 'x', b: '1', c: '1.5', d: 'true', e: 'false', f: '0', g: '1e+21', h: '10' },
    i: ' x ',
  });
  t.end();
});

t.test('prefers later layers, in which ignored values erase nothing', (t) => {
  const merged = mergeCustomFields([
    layer({ a: 'context', b: 'context', c: 'context' }),
    layer({ a: 'metadata', b: 'metadata' }),
    layer({ a: 'event', b: '  ', c: null }),
  ]);
  t.same(plain(merged), { a: 'event', b: 'metadata', c: 'context' });
  t.equal(mergeCustomFields([]), null);
  t.equal(mergeCustomFields([layer({ a: ' ' }), layer({ password: 'x' })]), null);
  t.end();
});

t.test('takes the last value of a key that is repeated in one layer', (t) => {
  const merged = mergeCustomFields([
    [
      ['a', 'x'],
      ['b', 'x'],
      ['a', 'y'],
      ['b', ''],
    ],
  ]);
  t.same(plain(merged), { a: 'y' });
  t.end();
});

t.test('ignores reserved keys', (t) => {
  for (const key of ['', '__proto__', 'constructor', 'prototype', 'custom_fields', 'id', 'usage']) {
    t.equal(isKept(key), false, key);
  }
  for (const key of ['project_id', 'organization_id', 'kind', 'metadata', 'end_time']) {
    t.equal(isKept(key), false, key);
  }
  const merged = mergeCustomFields([
    [
      ['__proto__', { x: 1 }],
      ['__proto__', 'y'],
      ['a', 1],
    ],
  ]);
  t.same(plain(merged), { a: '1' });
  t.equal(Object.getPrototypeOf(merged), null);
  t.equal(Reflect.get({}, 'x'), undefined);
  t.end();
});

t.test('ignores secret-like keys', (t) => {
  const secret = [
    ...['password', 'passwd', 'pwd', 'secret', 'token', 'apikey', 'authorization', 'cookie'],
    ...[
      'credential',
      'credentials',
      'bearer',
      'apiKey',
      'API-KEY',
      'api.key',
      'api key',
      'x-api-key',
    ],
    ...['access_token', 'accessToken', 'ACCESS_TOKEN', 'private_key', 'privateKey', 'access-key'],
    ...[
      'client_secret',
      'clientSecret',
      'APIKey',
      'myAPIKey',
      'db.password',
      'userPwd',
      'AWSAccessKeyId',
    ],
  ];
  for (const key of secret) t.equal(isKept(key), false, key);
  const kept = [
    ...['author', 'passenger', 'secretary', 'max_tokens', 'input_tokens', 'tokenizer', 'tokens'],
    ...[
      'key',
      'api',
      'api_version_key',
      'monkey_private',
      'cookies_eaten',
      'pass',
      'keyApi',
      'team',
    ],
  ];
  for (const key of kept) t.equal(isKept(key), true, key);
  t.end();
});

t.test('merges any object to strings under its own keys', (t) => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (value) => {
      const merged = mergeCustomFields([Object.entries(value)]) ?? {};
      return Object.entries(merged).every(
        ([key, text]) => text === String(value[key]) && isKept(key) && text.trim() !== '',
      );
    }),
    { numRuns: 200 },
  );
  t.pass('200 objects');
  t.end();
});
