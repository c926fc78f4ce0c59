import type { Finding } from './finding.ts';

const LOCAL_ASCII = /[A-Za-z0-9._%+'-]/;
const LOCAL_OTHER = /[\p{L}\p{M}\p{N}]/u;
const MAX_LOCAL = 64;
const DOMAIN =
  /(?:[\p{L}\p{N}](?:[\p{L}\p{M}\p{N}-]{0,61}[\p{L}\p{M}\p{N}])?\.){1,10}(?:xn--[a-z0-9-]{2,59}|\p{L}[\p{L}\p{M}]{1,62})/iuy;
/** `logo@2x.png`: the scale of an image, not an address. */
const IMAGE_SCALE = /^\dx\.(?:png|jpe?g|gif|webp|svg|avif)$/i;

/** E-mail addresses, from each `@` to both sides. */
export function findEmails(text: string): Finding[] {
  const found: Finding[] = [];
  for (let at = text.indexOf('@'); at !== -1; at = text.indexOf('@', at + 1)) {
    const start = localStart(text, at);
    if (start === at) continue;
    DOMAIN.lastIndex = at + 1;
    const domain = DOMAIN.exec(text)?.[0];
    if (domain === undefined || IMAGE_SCALE.test(domain)) continue;
    found.push({ start, end: at + 1 + domain.length });
  }
  return found;
}

/** Where the part before `@` starts; `at` if there is none. A quote or dot in front of it is not its own. */
function localStart(text: string, at: number): number {
  let start = at;
  while (start > 0 && at - start < MAX_LOCAL && isLocal(text, start - 1)) start--;
  while (start < at && /['.]/.test(text[start] ?? '')) start++;
  return start;
}

function isLocal(text: string, at: number): boolean {
  const character = text[at] ?? '';
  const unit = text.charCodeAt(at);
  if (unit < 0x80) return LOCAL_ASCII.test(character);
  // Each half of a pair counts as a letter, so that no character is split.
  return (unit >= 0xd800 && unit <= 0xdfff) || LOCAL_OTHER.test(character);
}

/** With a country code; eight to fifteen digits as in E.164. */
const INTERNATIONAL = /(?<![\w+])\+[1-9](?:[ ()./-]{0,2}[0-9]){7,14}(?![0-9])/g;
/** As written in North America. */
const NORTH_AMERICAN =
  /(?<![\w.-])(?:1[ .-])?(?:\([2-9][0-9]{2}\) ?|[2-9][0-9]{2}[ .-])[2-9][0-9]{2}[ .-][0-9]{4}(?![\w-])/g;

export function findPhones(text: string): Finding[] {
  return [INTERNATIONAL, NORTH_AMERICAN].flatMap((pattern) =>
    Array.from(text.matchAll(pattern), ({ index, 0: number }) => ({
      start: index,
      end: index + number.length,
    })),
  );
}
