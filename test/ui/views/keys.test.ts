import t from 'tap';
import { keyName, nameOfKey } from '../../../ui/parts/key-name.ts';
import { stateOf, stepOf } from '../../../ui/views/settings-keys/keys.ts';

const AT = '2026-11-20T10:00:00.000Z';

t.test('the old key can be revoked only after the replacement was used', async (t) => {
  const unused = { last_used_at: null };
  const used = { last_used_at: AT };
  const usedBefore = null;
  t.equal(stepOf({ isDeployed: false, replacement: undefined, usedBefore }), 1);
  t.equal(stepOf({ isDeployed: true, replacement: undefined, usedBefore }), 1);
  t.equal(stepOf({ isDeployed: false, replacement: unused, usedBefore }), 2);
  t.equal(stepOf({ isDeployed: false, replacement: used, usedBefore }), 2);
  t.equal(stepOf({ isDeployed: true, replacement: unused, usedBefore }), 3);
  t.equal(stepOf({ isDeployed: true, replacement: used, usedBefore }), 4);
});

t.test('a use from before the rotation does not confirm a replacement', async (t) => {
  const step = (last_used_at: string) =>
    stepOf({ isDeployed: true, replacement: { last_used_at }, usedBefore: AT });
  t.equal(step(AT), 3);
  t.equal(step('2026-11-20T10:01:00.000Z'), 4);
});

t.test('a key is in use until five minutes after its last use', async (t) => {
  const key = { last_used_at: AT, revoked_at: null };
  const now = Date.parse(AT);
  t.equal(stateOf(key, now), 'in use');
  t.equal(stateOf(key, now + 5 * 60_000), 'in use');
  t.equal(stateOf(key, now + 5 * 60_000 + 1), 'idle');
  t.equal(stateOf({ ...key, last_used_at: null }, now), 'never used');
  t.equal(stateOf({ ...key, revoked_at: AT }, now), 'revoked');
});

t.test('a key without a name goes by its prefix', async (t) => {
  t.equal(keyName({ name: '', prefix: 'ws_abc' }), 'ws_abc…');
  t.equal(keyName({ name: 'ci', prefix: 'ws_abc' }), 'ci');
  t.equal(nameOfKey('key_1'), 'key_1');
});
