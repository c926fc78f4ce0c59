/** An integer of 16 digits or more outside of a text: a double may not hold it. */
const LARGE_INTEGER = /[:[,]\s*-?\d{16}/;

/** Parses JSON. An integer that a double cannot hold is a `bigint`, so that a page shows the digits that a client sent. */
export function parseExact(text: string): unknown {
  return LARGE_INTEGER.test(text) ? JSON.parse(text, exactInteger) : JSON.parse(text);
}

type Context = { readonly source?: string };

function exactInteger(_key: string, value: unknown, context?: Context): unknown {
  const source = context?.source ?? '';
  const isLarge =
    typeof value === 'number' && Number.isInteger(value) && !Number.isSafeInteger(value);
  return isLarge && /^-?\d+$/.test(source) ? BigInt(source) : value;
}
