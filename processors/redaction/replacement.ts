import { createHmac } from 'node:crypto';
import type { Match } from './match.ts';

/** The bytes that replace a match; undefined for asterisks of the same length. */
export function replacementOf(match: Match, hashKey: string | undefined): Buffer | undefined {
  // No digit of a number is left to hash, and JSON around it stays JSON.
  if (match.isNumber) return Buffer.from('0'.padEnd(match.end - match.start));
  switch (match.action) {
    case 'mask':
      return undefined;
    case 'hash':
      return hashOf(match.text, hashKey);
    case 'remove':
      return REMOVED;
  }
}

const REMOVED = Buffer.from('[REMOVED]');

/** Hex digits of a hash that are shown: 64 bits are enough to tell values apart. */
const SHOWN = 16;

/** The same for the same characters, however they are escaped: observations can still be joined by it. */
function hashOf(text: string, key: string | undefined): Buffer {
  if (key === undefined) throw new Error('an action is hash, and hash_key is not set');
  const hash = createHmac('sha256', key).update(text).digest('hex');
  return Buffer.from(`[HASH:${hash.slice(0, SHOWN)}]`);
}
