import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import t from 'tap';
import { HASH_BLOCK, hashOfBody } from '../../../src/http/body-hash.ts';

/** The same hash in JavaScript, word by word. */
function expected(body: Buffer): string {
  const [one, two] = [0x9e3779b185ebca87n, 0xc2b2ae3d27d4eb4fn];
  const words = Buffer.alloc(Math.ceil(body.length / 32) * 32);
  body.copy(words);
  const lanes = [one + two, two, 0n, -one];
  for (let at = 0; at < words.length; at += 8) {
    const lane = (at / 8) % 4;
    const sum = BigInt.asUintN(64, (lanes[lane] ?? 0n) + words.readBigUInt64LE(at) * two);
    lanes[lane] = BigInt.asUintN(64, ((sum << 31n) | (sum >> 33n)) * one);
  }
  const text = Buffer.alloc(32);
  for (const [i, lane] of lanes.entries()) text.writeBigUInt64LE(BigInt.asUintN(64, lane), i * 8);
  return text.toString('latin1');
}

t.test('hashes a body of any length by its words', async (t) => {
  const sizes = [0, 1, 7, 8, 31, 32, 33, 63, 64, 65, 1000];
  for (const blocks of [1, 2]) {
    sizes.push(blocks * HASH_BLOCK - 1, blocks * HASH_BLOCK, blocks * HASH_BLOCK + 1);
  }
  for (const size of sizes) {
    const body = randomBytes(size);
    t.equal(hashOfBody(body), expected(body), `${size} bytes`);
  }
  const larger = randomBytes(100);
  t.equal(hashOfBody(larger.subarray(3, 70)), expected(larger.subarray(3, 70)), 'of a part');
});

t.test('a change of any byte changes the hash', async () => {
  const place = fc.record({ at: fc.nat(), bits: fc.integer({ min: 1, max: 255 }) });
  const size = fc.constantFrom(1, 8, 33, 500, HASH_BLOCK + 40);
  fc.assert(
    fc.property(size, place, (length, { at, bits }) => {
      const body = randomBytes(length);
      const before = hashOfBody(body);
      body.writeUInt8(body.readUInt8(at % length) ^ bits, at % length);
      return hashOfBody(body) !== before;
    }),
  );
});

t.test('takes a range for zeros, and leaves the body as it is', async (t) => {
  const body = randomBytes(HASH_BLOCK + 100);
  const copy = Buffer.from(body);
  const blank = Buffer.from(body).fill(0, 4, 8);
  t.equal(hashOfBody(body, 4, 8), expected(blank));
  t.ok(body.equals(copy));
  t.equal(hashOfBody(body), expected(body), 'the next body is hashed whole');
});
