const LAST = 0x10ffff;
const BEFORE_SURROGATES = 0xd7ff;
const BEHIND_SURROGATES = 0xe000;

/**
 * The first text, in the order of UTF-8, behind all texts that begin with this one; undefined if there is none. The order of UTF-8
 * is the order of code points.
 */
export function successorOf(text: string): string | undefined {
  const points = Array.from(text, (character) => character.codePointAt(0) ?? 0);
  let last = points.pop();
  while (last === LAST) last = points.pop();
  if (last === undefined) return undefined;
  points.push(last === BEFORE_SURROGATES ? BEHIND_SURROGATES : last + 1);
  return String.fromCodePoint(...points);
}
