/**
 * Text of clients and users as the tables of tenancy keep it. Postgres rejects NUL and unpaired surrogates in text. A
 * text that has one of them, or a backslash, is stored as the inside of a JSON string, one to one. (Traces have an
 * encoding of their own, traces/text.ts, which keeps text searchable.)
 */
export function toStoredText(text: string): string {
  return NEEDS_ESCAPE.test(text) || !text.isWellFormed() ? JSON.stringify(text).slice(1, -1) : text;
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: Postgres rejects NUL.
const NEEDS_ESCAPE = /[\\\u0000]/;

export function fromStoredText(text: string): string {
  return text.includes('\\') ? (JSON.parse(`"${text}"`) as string) : text;
}

/** A row whose strings are stored text, with the text of clients in its place. */
export function withText<Row extends Readonly<Record<string, string | number | null>>>(
  row: Row,
): Row {
  const cells = Object.entries(row).map(([name, cell]) => [
    name,
    typeof cell === 'string' ? fromStoredText(cell) : cell,
  ]);
  return Object.fromEntries(cells) as Row;
}

/** A parameter: the stored form of a text, any other value unchanged. */
export function toStored(cell: string | number | null): string | number | null {
  return typeof cell === 'string' ? toStoredText(cell) : cell;
}
