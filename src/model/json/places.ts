import {
  CLOSE_BRACKET,
  COMMA,
  OPEN_BRACE,
  OPEN_BRACKET,
  QUOTE,
  skipColon,
  skipString,
  skipValue,
  spaceFrom,
  textOf,
} from './grammar.ts';
import { keyIn } from './read.ts';

/**
 * The starts of the first `most` values at a path in the value at `start`. A step is the name of a member, of which the last one counts,
 * or `*`: each element of an array. It reads the bytes once, but `findMembers` for each step reads them once for each.
 */
export function placesAt(
  bytes: Buffer,
  start: number,
  path: readonly string[],
  most: number,
): readonly number[] {
  const text = textOf(bytes);
  const places: number[] = [];

  /** Reads the value at `at`, which is behind `depth` steps, and returns its end. */
  function read(at: number, depth: number): number {
    const step = path[depth];
    if (step === '*' && bytes[at] === OPEN_BRACKET) return elements(at, depth);
    if (step !== undefined && step !== '*' && bytes[at] === OPEN_BRACE) {
      return members(at, depth, step);
    }
    if (step === undefined && places.length < most) places.push(at);
    return skipValue(text, at, 1);
  }

  function elements(start: number, depth: number): number {
    let at = spaceFrom(text, start + 1);
    while (bytes[at] !== CLOSE_BRACKET) {
      at = spaceFrom(text, read(at, depth + 1));
      if (bytes[at] === COMMA) at = spaceFrom(text, at + 1);
    }
    return at + 1;
  }

  function members(start: number, depth: number, step: string): number {
    const before = places.length;
    let at = spaceFrom(text, start + 1);
    while (bytes[at] === QUOTE) {
      const keyEnd = skipString(text, at + 1);
      const isStep = keyIn(bytes, at, keyEnd) === step;
      const value = skipColon(text, keyEnd);
      if (isStep) places.length = before;
      at = spaceFrom(text, isStep ? read(value, depth + 1) : skipValue(text, value, 1));
      if (bytes[at] === COMMA) at = spaceFrom(text, at + 1);
    }
    return at + 1;
  }

  read(start, 0);
  return places;
}
