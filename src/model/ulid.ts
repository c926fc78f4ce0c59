import { randomFillSync } from 'node:crypto';

const ALPHABET = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
const POOL = Buffer.alloc(10 * 256);
let used = POOL.length;
let lastMs = 0;
let lastRandom = Buffer.alloc(10);

/**
 * A ULID: 48 bits of milliseconds and 80 random bits in Crockford's base 32. Ids of one process sort in the
 * order of their creation, also within a millisecond and when the clock goes back.
 */
export function ulid(nowMs: number): string {
  if (nowMs > lastMs) {
    lastMs = nowMs;
    if (used === POOL.length) {
      randomFillSync(POOL);
      used = 0;
    }
    lastRandom = Buffer.from(POOL.subarray(used, used + 10));
    used += 10;
    // A free bit at the top, so that increments within a millisecond cannot overflow.
    lastRandom[0] = (lastRandom[0] ?? 0) & 0x7f;
  } else {
    increment(lastRandom);
  }
  return encodeTime(lastMs) + encodeRandom(lastRandom);
}

function increment(bytes: Buffer): void {
  for (let i = bytes.length - 1; i >= 0; i--) {
    const next = (bytes[i] ?? 0) + 1;
    bytes[i] = next & 0xff;
    if (next < 256) return;
  }
}

/** The first ten characters of the ids of a millisecond. They sort as the milliseconds do. */
export function encodeTime(ms: number): string {
  let text = '';
  let rest = ms;
  for (let i = 0; i < 10; i++) {
    text = (ALPHABET[rest % 32] ?? '') + text;
    rest = Math.floor(rest / 32);
  }
  return text;
}

function encodeRandom(bytes: Buffer): string {
  let text = '';
  let bits = 0;
  let value = 0;
  for (const byte of bytes) {
    value = (value << 8) | byte;
    bits += 8;
    while (bits >= 5) {
      bits -= 5;
      text += ALPHABET[(value >> bits) & 31] ?? '';
    }
    value &= (1 << bits) - 1;
  }
  return text;
}
