export type QueryValues = Readonly<Record<string, string | number | boolean | undefined>>;

/** A path with its parameters: `undefined` and the empty text leave a parameter out. */
export function withParameters(path: string, parameters: QueryValues): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined && value !== '') search.set(name, String(value));
  }
  const text = search.toString();
  return text === '' ? path : `${path}?${text}`;
}
