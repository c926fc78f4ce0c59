import fc from 'fast-check';
import t from 'tap';
import {
  hashToken,
  hasValidChecksum,
  makeId,
  makeToken,
  shownPrefix,
} from '../../../src/tenancy/token.ts';

t.test('a token is ws_ and 49 letters and digits, and unique', async (t) => {
  const tokens = Array.from({ length: 1000 }, makeToken);
  for (const token of tokens) {
    if (!/^ws_[0-9A-Za-z]{49}$/.test(token)) t.fail(token);
    if (!hasValidChecksum(token)) t.fail(`${token} does not fit its own checksum`);
  }
  t.equal(new Set(tokens).size, tokens.length);
});

t.test('accepts tokens that were made before', async (t) => {
  const bodies = { '0': '4KBnBu', Z: '23NVBT', k: '0cS0TL' };
  for (const [digit, checksum] of Object.entries(bodies)) {
    t.ok(hasValidChecksum(`ws_${digit.repeat(43)}${checksum}`), checksum);
  }
});

t.test('refuses a token with one character changed, removed, added or moved', async (t) => {
  const token = makeToken();
  fc.assert(
    fc.property(fc.integer({ min: 3, max: 51 }), fc.constantFrom(...'09azAZ-_ é'), (at, letter) => {
      const changed = token.slice(0, at) + letter + token.slice(at + 1);
      const swapped = token.slice(0, at) + token.slice(at + 1) + (token[at] ?? '');
      for (const wrong of [changed, swapped, token.slice(0, at), token + letter]) {
        if (wrong !== token && hasValidChecksum(wrong)) throw new Error(wrong);
      }
    }),
  );
  t.notOk(hasValidChecksum(token.toUpperCase()));
  t.notOk(hasValidChecksum(` ${token}`));
  t.notOk(hasValidChecksum(`${token}\n`));
  t.notOk(hasValidChecksum(''));
});

t.test('stores the SHA-256, and shows the first characters only', async (t) => {
  const expected = '759dbbe19fcc006910ecf799ac861b95d5ca1c45b0b8f40216da4d47d5d1c9d2';
  t.equal(hashToken('ws_test').toString('hex'), expected);
  t.equal(shownPrefix('ws_0123456789').length, 11);
});

t.test('ids have the prefix of their kind', async (t) => {
  t.match(makeId('proj'), /^proj_[0-9A-Za-z]{20}$/);
  t.not(makeId('key'), makeId('key'));
});
