import type { Finding } from './finding.ts';

/** Not within a longer number, and not the fraction of one: vectors of floats are common in traces. */
const PLAIN = /(?<![0-9])(?<![0-9]\.)[2-6][0-9]{12,18}(?![0-9])(?!\.[0-9])/g;
/** 4-4-4-4, 4-4-4-4-3, 4-6-5 and 4-6-4, with the same separator throughout. */
const GROUPED =
  /(?<![0-9])[2-6][0-9]{3}(?:([ -])[0-9]{4}\1[0-9]{4}\1[0-9]{4}(?:\1[0-9]{3})?|([ -])[0-9]{6}\2[0-9]{4,5})(?![0-9])/g;

/** Numbers of payment cards: written as cards are, with an issuer's prefix, its length and the check digit. */
export function findCards(text: string): Finding[] {
  const found: Finding[] = [];
  for (const { index: start, 0: number } of text.matchAll(PLAIN)) {
    const end = start + number.length;
    if (isCard(number) && !isWithinHash(text, start, end)) found.push({ start, end });
  }
  GROUPED.lastIndex = 0;
  for (let match = GROUPED.exec(text); match !== null; match = GROUPED.exec(text)) {
    const { index: start, 0: number } = match;
    const end = start + number.length;
    if (isCard(number.replace(/[ -]/g, '')) && !isWithinHash(text, start, end)) {
      found.push({ start, end });
    } else {
      // A group in front of the card, such as a year, must not hide it.
      GROUPED.lastIndex = start + 4;
    }
  }
  return found;
}

type Issuer = { readonly prefix: RegExp; readonly lengths: readonly number[] };

const ISSUERS: readonly Issuer[] = [
  // Visa.
  { prefix: /^4/, lengths: [13, 16, 19] },
  // Mastercard.
  { prefix: /^(?:5[1-5]|222[1-9]|22[3-9]|2[3-6]|27[01]|2720)/, lengths: [16] },
  // American Express.
  { prefix: /^3[47]/, lengths: [15] },
  // Discover, UnionPay.
  { prefix: /^(?:6011|64[4-9]|65|62)/, lengths: [16, 17, 18, 19] },
  // Diners Club.
  { prefix: /^(?:30[0-5]|3[689])/, lengths: [14, 16, 17, 18, 19] },
  // JCB.
  { prefix: /^(?:352[89]|35[3-8])/, lengths: [16, 17, 18, 19] },
  // Maestro.
  {
    prefix: /^(?:50(?:18|20|38)|5893|6304|67(?:59|6[1-3]))/,
    lengths: [13, 14, 15, 16, 17, 18, 19],
  },
];

function isCard(digits: string): boolean {
  const isIssued = ISSUERS.some(
    ({ prefix, lengths }) => prefix.test(digits) && lengths.includes(digits.length),
  );
  return isIssued && isLuhn(digits);
}

/** The check of ISO/IEC 7812: every second digit from the right counts twice. */
function isLuhn(digits: string): boolean {
  let sum = 0;
  for (let i = 1; i <= digits.length; i++) {
    const digit = digits.charCodeAt(digits.length - i) - 0x30;
    const value = i % 2 === 0 ? digit * 2 : digit;
    sum += value > 9 ? value - 9 : value;
  }
  return sum % 10 === 0;
}

/** UUIDs, and hashes in hex: one in a few thousand holds the digits of a card. */
const HASH =
  /^(?:[0-9a-f]{24}|[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{56}|[0-9a-f]{64}|[0-9a-f]{96}|[0-9a-f]{128}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/i;
const LONGEST_HASH = 128;

function isWithinHash(text: string, start: number, end: number): boolean {
  let from = start;
  let to = end;
  while (start - from < LONGEST_HASH && isHexOrHyphen(text.charCodeAt(from - 1))) from--;
  while (to - end < LONGEST_HASH && isHexOrHyphen(text.charCodeAt(to))) to++;
  return HASH.test(text.slice(from, to));
}

function isHexOrHyphen(unit: number): boolean {
  const lower = unit | 0x20;
  return (unit >= 0x30 && unit <= 0x39) || (lower >= 0x61 && lower <= 0x66) || unit === 0x2d;
}
