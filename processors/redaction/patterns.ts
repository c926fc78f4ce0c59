import { RE2JS } from 're2js';
import type { Finding } from './rules/finding.ts';

/**
 * Characters of a text that are searched at a time: RE2JS takes up to half a microsecond for each, and other
 * requests are served in between.
 */
const PIECE = 16_384;
/** Pieces overlap by this much, so a match that is not longer is found across two of them. */
const OVERLAP = 4_096;

/** Every match in a text; yields undefined between two pieces. */
export type PatternFinder = (text: string) => Generator<Finding | undefined>;

export function patternFinder(source: string): PatternFinder {
  const pattern = RE2JS.compile(source);
  return function* find(text) {
    for (let start = 0; start < text.length; start += PIECE) {
      const from = Math.max(0, start - OVERLAP);
      const piece = text.slice(from, start + PIECE);
      // Most pieces have no match, and a test takes a fifth of the time of a search.
      if (pattern.test(piece)) {
        const matcher = pattern.matcher(piece);
        while (matcher.find()) yield { start: from + matcher.start(), end: from + matcher.end() };
      }
      yield undefined;
    }
  };
}

/**
 * The text that every match starts with, for the prefilter; undefined if the source does not say it plainly,
 * so that each text has to be searched. A slash ends it, because JSON may spell it `\/`, as PHP does by default.
 */
export function literalPrefix(source: string): string | undefined {
  if (source.includes('|')) return undefined;
  const literal = /^[\w@#:= -]+/.exec(source)?.[0] ?? '';
  const isRepeated = /^[?*+{]/.test(source.slice(literal.length));
  const prefix = isRepeated ? literal.slice(0, -1) : literal;
  return prefix.length >= 2 ? prefix : undefined;
}
