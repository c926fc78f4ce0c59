import { RE2JS, RE2JSException } from 're2js';
import { z } from 'zod';

/** A pattern in RE2 syntax, which takes linear time on any text. A pattern that matches the empty text is invalid. */
export function re2Pattern() {
  return z
    .string()
    .min(1)
    .superRefine((source, context) => {
      const message = patternProblem(source);
      if (message !== undefined) context.addIssue({ code: 'custom', message });
    });
}

/** The reason why a pattern is invalid; undefined if it is valid. */
function patternProblem(source: string): string | undefined {
  try {
    return matchesEmptyText(RE2JS.compile(source))
      ? 'the pattern may match the empty text: let it match at least one character'
      : undefined;
  } catch (error) {
    if (error instanceof RE2JSException)
      return `the pattern is not in RE2 syntax: ${error.message}`;
    throw error;
  }
}

/** Texts with every neighbourhood that an assertion without width can distinguish. */
const NEIGHBOURHOODS = ['', 'a', ' ', '\n'].flatMap((first, _, all) =>
  all.map((second) => first + second),
);

function matchesEmptyText(pattern: RE2JS): boolean {
  return NEIGHBOURHOODS.some((text) => {
    const matcher = pattern.matcher(text);
    while (matcher.find()) if (matcher.start() === matcher.end()) return true;
    return false;
  });
}
