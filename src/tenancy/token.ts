import { createHash, randomBytes } from 'node:crypto';
import { crc32 } from 'node:zlib';

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const PREFIX = 'ws_';
/** 62^43 > 2^256 and 62^6 > 2^32: every value fits into this many digits. */
const BODY_DIGITS = 43;
const CHECK_DIGITS = 6;
const SHAPE = /^ws_[0-9A-Za-z]{49}$/;
export const TOKEN_CHARACTERS = PREFIX.length + BODY_DIGITS + CHECK_DIGITS;
/** Characters of a token that may be shown; too few to guess the rest. */
const SHOWN = 11;

/**
 * Creates the token of a project key: `ws_`, 256 random bits in base 62, and the CRC-32 of the characters before
 * it, so that a mistyped or invented token is refused without a lookup. 52 characters.
 */
export function makeToken(): string {
  const body = PREFIX + base62(BigInt(`0x${randomBytes(32).toString('hex')}`), BODY_DIGITS);
  return body + checksum(body);
}

/** True if the text has the shape of a token and a valid checksum. The key may still be unknown. */
export function hasValidChecksum(token: string): boolean {
  if (!SHAPE.test(token)) return false;
  const body = token.slice(0, -CHECK_DIGITS);
  return checksum(body) === token.slice(-CHECK_DIGITS);
}

/** The stored form of a token: its SHA-256, 32 bytes. A slow hash adds nothing to 256 random bits. */
export function hashToken(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}

/** The first characters of a token, for display. */
export function shownPrefix(token: string): string {
  return token.slice(0, SHOWN);
}

/** A random public id, such as `proj_…` or `key_…`; 119 random bits. */
export function makeId(prefix: string): string {
  return `${prefix}_${base62(BigInt(`0x${randomBytes(15).toString('hex')}`) >> 1n, 20)}`;
}

/** Runs for each request, so it does without a `BigInt`. */
function checksum(text: string): string {
  let digits = '';
  let rest = crc32(text);
  for (let i = 0; i < CHECK_DIGITS; i++) {
    digits = BASE62.charAt(rest % 62) + digits;
    rest = Math.floor(rest / 62);
  }
  return digits;
}

function base62(value: bigint, digits: number): string {
  let text = '';
  let rest = value;
  for (let i = 0; i < digits; i++) {
    text = (BASE62[Number(rest % 62n)] ?? '') + text;
    rest /= 62n;
  }
  return text;
}
