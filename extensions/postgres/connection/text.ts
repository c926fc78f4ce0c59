/**
 * Postgres takes neither NUL nor halves of surrogate pairs in text. Where a text has one of them or a
 * backslash, it is kept as the inside of a JSON string; no two texts look the same there.
 */
export function toText(text: string): string {
  return NEEDS_ESCAPE.test(text) || !text.isWellFormed() ? JSON.stringify(text).slice(1, -1) : text;
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: NUL is what Postgres refuses.
const NEEDS_ESCAPE = /[\\\u0000]/;

export function fromText(text: string): string {
  return text.includes('\\') ? (JSON.parse(`"${text}"`) as string) : text;
}
