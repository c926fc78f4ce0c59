import t from 'tap';
import { config } from '../../../processors/redaction/config.ts';

function problems(written: object): string[] {
  const { error } = config.safeParse(written);
  return (error?.issues ?? []).map(({ path, message }) => `${path.join('.')}: ${message}`);
}

t.test('by default every rule but phone masks, in all fields', async (t) => {
  const { rules, keys, keys_action, fields } = config.parse({});
  t.same(new Set(Object.values(rules)), new Set(['mask', 'off']));
  t.equal(rules.phone, 'off');
  t.equal(keys_action, 'mask');
  t.ok(
    ['password', 'authorization', 'cookie', 'secret', 'token'].every((key) => keys.includes(key)),
  );
  t.notOk((fields as string[]).includes('fixed'));
});

t.test('refuses a pattern that may match the empty text, or that RE2 does not know', async (t) => {
  for (const pattern of ['a*', 'a?', '^', '$', '\\b', '(?m)^', 'x|', 'a|\\B', '()', '\\w*|b']) {
    t.match(problems({ patterns: [{ name: 'p', pattern }] }), [
      /^patterns\.0\.pattern: .*empty text/,
    ]);
  }
  for (const pattern of ['(', 'a(?=b)', '\\1', '[z-a]']) {
    t.match(problems({ patterns: [{ name: 'p', pattern }] }), [
      /^patterns\.0\.pattern: the pattern is not in RE2 syntax/,
    ]);
  }
  t.same(problems({ patterns: [{ name: 'p', pattern: '^a+$' }] }), []);
});

t.test('the action hash needs hash_key, wherever it is', async (t) => {
  const users = [
    { rules: { email: 'hash' } },
    { keys_action: 'hash' },
    { patterns: [{ name: 'p', pattern: 'a', action: 'hash' }] },
  ];
  for (const written of users) {
    t.match(problems(written), [/^hash_key: .* has the action hash, which needs hash_key/]);
    t.match(problems({ ...written, hash_key: '' }), [/^hash_key: .*needs hash_key/]);
    t.same(problems({ ...written, hash_key: 'x'.repeat(16) }), []);
  }
  t.match(problems({ hash_key: 'x'.repeat(15) }), [/^hash_key: hash_key has 15 characters/]);
  t.same(problems({ hash_key: '' }), [], 'an empty variable is none');
});

t.test('refuses names and fields that mean nothing', async (t) => {
  t.match(problems({ keys: ['--'] }), [/^keys\.0: /]);
  t.match(problems({ fields: [] }), [/^fields: /]);
  t.match(problems({ fields: ['fixed'] }), [/^fields\.0: /]);
  t.match(problems({ rules: { emails: 'mask' } }), [/emails/]);
  t.match(problems({ patterns: [{ name: 'A', pattern: 'a' }] }), [/^patterns\.0\.name: /]);
});
