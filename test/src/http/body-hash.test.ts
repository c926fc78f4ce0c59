import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import t from 'tap';
import { HASH_BLOCK, hashOfBody, SEED_BYTES } from '../../../src/http/body-hash.ts';

const SEED = randomBytes(SEED_BYTES);
const hashed = (body: Buffer, ...ignored: number[]) => hashOfBody(body, SEED, ...ignored);

/** The same hash in JavaScript, word by word. */
function expected(body: Buffer): string {
  const [one, two] = [0x9e3779b185ebca87n, 0xc2b2ae3d27d4eb4fn];
  const lanes = [0, 8, 16, 24].map((at) => SEED.readBigUInt64LE(at));
  lanes[0] = (lanes[0] ?? 0n) ^ BigInt(body.length);
  const round = (lane: number, word = 0n) => {
    const sum = BigInt.asUintN(64, (lanes[lane] ?? 0n) + word * two);
    lanes[lane] = BigInt.asUintN(64, ((sum << 31n) | (sum >> 33n)) * one);
  };
  for (let from = 0; from < body.length; from += HASH_BLOCK) {
    const block = body.subarray(from, from + HASH_BLOCK);
    const words = Buffer.alloc(Math.ceil(block.length / 32) * 32);
    block.copy(words);
    for (let at = 0; at < words.length; at += 8) round((at / 8) % 4, words.readBigUInt64LE(at));
    for (let i = 0; i < 8; i++) round(i % 4, lanes[(i + 3) % 4]);
  }
  const result = Buffer.alloc(32);
  for (const [i, lane] of lanes.entries()) result.writeBigUInt64LE(lane, i * 8);
  return result.toString('base64', 0, 18);
}

t.test('hashes a body of any length by its words', async (t) => {
  const sizes = [0, 1, 7, 8, 31, 32, 33, 63, 64, 65, 1000];
  for (const blocks of [1, 2]) {
    sizes.push(blocks * HASH_BLOCK - 1, blocks * HASH_BLOCK, blocks * HASH_BLOCK + 1);
  }
  for (const size of sizes) {
    const body = randomBytes(size);
    t.equal(hashed(body), expected(body), `${size} bytes`);
  }
  const larger = randomBytes(100);
  t.equal(hashed(larger.subarray(3, 70)), expected(larger.subarray(3, 70)), 'of a part');
});

t.test('a change of any byte changes the hash', async () => {
  const place = fc.record({ at: fc.nat(), bits: fc.integer({ min: 1, max: 255 }) });
  const size = fc.constantFrom(1, 8, 33, 500, HASH_BLOCK + 40);
  fc.assert(
    fc.property(size, place, (length, { at, bits }) => {
      const body = randomBytes(length);
      const before = hashed(body);
      body.writeUInt8(body.readUInt8(at % length) ^ bits, at % length);
      return hashed(body) !== before;
    }),
  );
});

t.test('takes a range for zeros, and leaves the body as it is', async (t) => {
  const body = randomBytes(HASH_BLOCK + 100);
  const copy = Buffer.from(body);
  const blank = Buffer.from(body).fill(0, 4, 8);
  t.equal(hashed(body, 4, 8), expected(blank));
  t.ok(body.equals(copy));
  t.equal(hashed(body), expected(body), 'the next body is hashed whole');
});

t.test('a change of one bit changes about half of the bits, also in a short body', async (t) => {
  const difference = (a: string, b: string): number => {
    const other = Buffer.from(b, 'base64');
    const differing = [...Buffer.from(a, 'base64')].map((byte, i) => byte ^ (other[i] ?? 0));
    return differing.reduce((sum, byte) => sum + ones(byte), 0);
  };
  for (const size of [1, 40, 4096]) {
    const body = randomBytes(size);
    const before = hashed(body);
    t.equal(before.length, 24);
    for (let bit = 0; bit < 8 * Math.min(size, 40); bit++) {
      const changed = Buffer.from(body);
      changed.writeUInt8(changed.readUInt8(bit >> 3) ^ (1 << (bit & 7)), bit >> 3);
      const count = difference(before, hashed(changed));
      t.ok(count > 30 && count < 114, `${count} of 144 bits, at bit ${bit} of ${size} bytes`);
    }
  }
});

t.test('the seed and the length count', async (t) => {
  const other = Buffer.from(SEED);
  other.writeUInt8(other.readUInt8(31) ^ 1, 31);
  t.not(hashOfBody(Buffer.from('a'), other), hashed(Buffer.from('a')));
  t.not(hashed(Buffer.alloc(1)), hashed(Buffer.alloc(2)));
});

function ones(byte: number): number {
  let count = 0;
  for (let rest = byte; rest > 0; rest >>= 1) count += rest & 1;
  return count;
}
