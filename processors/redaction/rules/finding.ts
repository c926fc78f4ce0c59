/** A range of a text's characters that a rule found. */
export type Finding = { readonly start: number; readonly end: number };

/** Where a sticky pattern's match at `start` ends; undefined if there is none. */
export function matchEnd(pattern: RegExp, text: string, start: number): number | undefined {
  pattern.lastIndex = start;
  return pattern.test(text) ? pattern.lastIndex : undefined;
}
