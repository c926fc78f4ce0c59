import { gunzipSync, zstdDecompressSync } from 'node:zlib';
import t from 'tap';
import { compressed } from '../../../src/model/compress.ts';

const MOST_AT_ONCE = 64 * 1024;
const INFLATE = { gzip: gunzipSync, zstd: zstdDecompressSync } as const;

t.test('compresses a large body in a thread, and a small one at once', async (t) => {
  for (const encoding of ['gzip', 'zstd'] as const) {
    for (const length of [0, MOST_AT_ONCE, MOST_AT_ONCE + 1]) {
      const body = Buffer.alloc(length, 'a body of traces ');
      const made = compressed(body, encoding);
      t.equal(made instanceof Promise, length > MOST_AT_ONCE, `${encoding} ${length}`);
      t.same(INFLATE[encoding](await made), body);
    }
  }
});

t.test('compresses at the level that is given', async (t) => {
  let seed = 1;
  const letters = Array.from({ length: 60_000 }, () => {
    seed = (seed * 48_271) % 2_147_483_647;
    return 97 + Math.floor(Math.sqrt(seed % 400));
  });
  const body = Buffer.from(letters);
  for (const [encoding, level] of [
    ['gzip', 9],
    ['zstd', 19],
  ] as const) {
    const fast = await compressed(body, encoding, 1);
    const small = await compressed(body, encoding, level);
    t.not(fast.length, small.length, encoding);
    t.same(INFLATE[encoding](small), body);
  }
});
