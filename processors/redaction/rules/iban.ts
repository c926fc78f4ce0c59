import type { Finding } from './finding.ts';

/** Characters of an IBAN by country, from the registry of ISO 13616. */
const LENGTHS: Readonly<Record<string, number>> = {
  ...{ AD: 24, AE: 23, AL: 28, AT: 20, AZ: 28, BA: 20, BE: 16, BG: 22, BH: 22, BI: 27, BR: 29 },
  ...{ BY: 28, CH: 21, CR: 22, CY: 28, CZ: 24, DE: 22, DJ: 27, DK: 18, DO: 28, EE: 20, EG: 29 },
  ...{ ES: 24, FI: 18, FK: 18, FO: 18, FR: 27, GB: 22, GE: 22, GI: 23, GL: 18, GR: 27, GT: 28 },
  ...{ HN: 28, HR: 21, HU: 28, IE: 22, IL: 23, IQ: 23, IS: 26, IT: 27, JO: 30, KW: 30, KZ: 20 },
  ...{ LB: 28, LC: 32, LI: 21, LT: 20, LU: 20, LV: 21, LY: 25, MC: 27, MD: 24, ME: 22, MK: 19 },
  ...{ MN: 20, MR: 27, MT: 31, MU: 30, NI: 28, NL: 18, NO: 15, OM: 23, PK: 24, PL: 28, PS: 29 },
  ...{ PT: 25, QA: 29, RO: 24, RS: 22, RU: 33, SA: 24, SC: 31, SD: 18, SE: 24, SI: 19, SK: 24 },
  ...{ SM: 27, SO: 23, ST: 25, SV: 28, TL: 23, TN: 24, TR: 26, UA: 29, VA: 22, VG: 24, XK: 20 },
  YE: 30,
};

const START = /[A-Z]{2}[0-9]{2}/g;

/** IBANs in capitals, in one piece or in groups with a single space or hyphen in between. */
export function findIbans(text: string): Finding[] {
  const found: Finding[] = [];
  START.lastIndex = 0;
  for (let match = START.exec(text); match !== null; match = START.exec(text)) {
    const start = match.index;
    const end = ibanEnd(text, start, LENGTHS[match[0].slice(0, 2)]);
    if (end !== undefined) found.push({ start, end });
    START.lastIndex = end ?? start + 1;
  }
  return found;
}

/** Where the IBAN that starts here ends; undefined if there is none. */
function ibanEnd(text: string, start: number, length: number | undefined): number | undefined {
  if (length === undefined) return undefined;
  // ISO 7064: the number that the characters spell, the first four behind all others, is 1 modulo 97.
  let head = 0;
  let rest = 0;
  let count = 0;
  let at = start;
  for (; count < length; at++) {
    const value = digitsOf(text.charCodeAt(at));
    if (value >= 0) {
      if (count === 4) rest = 0;
      rest = (rest * (value > 9 ? 100 : 10) + value) % 97;
      count++;
      if (count === 4) head = rest;
    } else if (!isSeparator(text.charCodeAt(at)) || digitsOf(text.charCodeAt(at - 1)) < 0) {
      return undefined;
    }
  }
  if (digitsOf(text.charCodeAt(at)) >= 0) return undefined;
  // Two letters and two digits are six digits.
  return (rest * 1_000_000 + head) % 97 === 1 ? at : undefined;
}

/** 0 to 9 for digits, 10 to 35 for capitals, -1 for everything else. */
function digitsOf(unit: number): number {
  if (unit >= 0x30 && unit <= 0x39) return unit - 0x30;
  return unit >= 0x41 && unit <= 0x5a ? unit - 0x37 : -1;
}

function isSeparator(unit: number): boolean {
  return unit === 0x20 || unit === 0x2d;
}
