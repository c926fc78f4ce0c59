/** Runs of digits and capitals: a card, an IBAN or the id of an AWS key looks like one from afar. */

const DIGIT = 1;
const CAPITAL = 2;
const SEPARATOR = 3;

const KIND = new Uint8Array(256);
for (const c of Buffer.from('0123456789')) KIND[c] = DIGIT;
for (const c of Buffer.from('ABCDEFGHIJKLMNOPQRSTUVWXYZ')) KIND[c] = CAPITAL;
for (const c of Buffer.from(' -')) KIND[c] = SEPARATOR;

/** Digits of the shortest card. */
const CARD_DIGITS = 13;
/** Characters of the shortest IBAN; the id of an AWS key has 20. */
const IBAN_CHARACTERS = 15;
/** Bytes to one side that may belong to the run: 33 characters of an IBAN in groups of 4. */
const REACH = 41;
const LETTER_A = 0x41;

/**
 * Whether the run around `at`, which byte-scanner.ts found, has 13 digits with at most one separator between two,
 * or 15 characters with two capitals and two digits in a row, or with a capital `A`, two more and another `A`.
 */
export function isLongRun(bytes: Buffer, at: number): boolean {
  let start = at;
  while (start > 0 && at - start < REACH && KIND[bytes[start - 1] as number] !== 0) start--;
  let end = at;
  while (end < bytes.length && end - at <= REACH && KIND[bytes[end] as number] !== 0) end++;
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
