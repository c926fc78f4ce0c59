import { type Candidates, Cause } from './candidates.ts';

/**
 * Finds long runs of digits and capitals: what a card, an IBAN or the id of an AWS key looks like from afar. A
 * run has at least 13 bytes and so covers a multiple of 8: one byte in eight is looked at. If the run has
 * separators, it is longer than 16 bytes and covers two, and separators that are 8 bytes apart occur in none.
 */
export function findRuns(bytes: Buffer, start: number, end: number, candidates: Candidates): void {
  for (let at = nextRun(bytes, start, end); at < end; at = nextRun(bytes, at + 1, end)) {
    if (isCandidate(bytes, at)) candidates.add(at, Cause.RUN);
  }
}

/**
 * The next multiple of 8 with a digit or capital that may be in such a run; `end` if there is none. Nothing is
 * called within the loop: V8 would load the buffer's address again for each byte, which takes three times as long.
 */
function nextRun(bytes: Buffer, start: number, end: number): number {
  const limit = bytes.length - FAR;
  const last = end < limit ? end : limit;
  let at = (start + 7) & ~7;
  for (; at < last; at += 8) {
    const kind = KIND[bytes[at] as number];
    if (kind === 0 || kind === SEPARATOR) continue;
    // The body's first bytes have too few in front of them for the check below.
    if (at < FAR) break;
    // Of 13 bytes in a row that include this one, three are 3, 6 or 9 bytes away from it.
    let near = 0;
    if (isRun(bytes, at - 3)) {
      near++;
      if (isRun(bytes, at - 6)) near += isRun(bytes, at - FAR) ? 2 : 1;
    }
    if (isRun(bytes, at + 3)) {
      near++;
      if (isRun(bytes, at + 6)) near += isRun(bytes, at + FAR) ? 2 : 1;
    }
    if (near >= 3) break;
  }
  return at < end ? at : end;
}

const FAR = 9;
const DIGIT = 1;
const CAPITAL = 2;
const SEPARATOR = 3;

const KIND = new Uint8Array(256);
for (const c of Buffer.from('0123456789')) KIND[c] = DIGIT;
for (const c of Buffer.from('ABCDEFGHIJKLMNOPQRSTUVWXYZ')) KIND[c] = CAPITAL;
for (const c of Buffer.from(' -')) KIND[c] = SEPARATOR;

function isRun(bytes: Buffer, at: number): boolean {
  return KIND[bytes[at] as number] !== 0;
}

/** Digits of the shortest card. */
const CARD_DIGITS = 13;
/** Characters of the shortest IBAN; the id of an AWS key has 20. */
const IBAN_CHARACTERS = 15;
/** Bytes to one side that may belong to the run: 33 characters of an IBAN in groups of 4. */
const REACH = 41;
const LETTER_A = 0x41;

/**
 * Whether the run around `at` has 13 digits with at most one separator between two, or 15 characters with two
 * capitals and two digits in a row, or with a capital `A`, two more and another `A`.
 */
function isCandidate(bytes: Buffer, at: number): boolean {
  let start = at;
  while (start > 0 && at - start < REACH && isRun(bytes, start - 1)) start--;
  let end = at + 1;
  while (end < bytes.length && end - at <= REACH && isRun(bytes, end)) end++;
  if (end - start < CARD_DIGITS) return false;
  let digits = 0;
  for (let i = start; i < end; i++) {
    const kind = KIND[bytes[i] as number];
    if (kind === DIGIT) digits++;
    else if (kind === CAPITAL || KIND[bytes[i - 1] as number] !== DIGIT) digits = 0;
    if (digits === CARD_DIGITS) return true;
  }
  return end - start >= IBAN_CHARACTERS && mayHoldIbanOrKeyId(bytes, start, end);
}

function mayHoldIbanOrKeyId(bytes: Buffer, start: number, end: number): boolean {
  for (let i = start; i < end - 3; i++) {
    if (KIND[bytes[i] as number] !== CAPITAL || KIND[bytes[i + 1] as number] !== CAPITAL) continue;
    const third = KIND[bytes[i + 2] as number];
    if (third === DIGIT && KIND[bytes[i + 3] as number] === DIGIT) return true;
    if (third === CAPITAL && bytes[i] === LETTER_A && bytes[i + 3] === LETTER_A) return true;
  }
  return false;
}
