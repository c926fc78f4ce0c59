/** A list with more entries has a field that finds some of them: a person does not look through it. */
export const LONG_LIST = 12;

/** Whether every word of `wanted` is in one of the texts, no matter the case. */
export function isFound(wanted: string, ...texts: readonly string[]): boolean {
  const lower = texts.map((text) => text.toLowerCase());
  const words = wanted.toLowerCase().split(/\s+/);
  return words.every((word) => lower.some((text) => text.includes(word)));
}
