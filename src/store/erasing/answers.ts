/** The results of a native answer, of which each may name its item. */
type Results = { readonly results?: readonly { readonly id?: unknown }[] } | null;

/** The answer to a request without the ids of erased items; undefined if it has none of them. */
export function withoutIds(body: Buffer, isErased: (id: string) => boolean): Buffer | undefined {
  let answer: Results;
  try {
    answer = JSON.parse(body.toString()) as Results;
  } catch {
    // The answers of OTLP name no item.
    return undefined;
  }
  const results = answer?.results;
  if (!Array.isArray(results)) return undefined;
  let changed = false;
  const left = results.map((result: { readonly id?: unknown }) => {
    const { id, ...rest } = result;
    if (typeof id !== 'string' || !isErased(id)) return result;
    changed = true;
    return rest;
  });
  return changed ? Buffer.from(JSON.stringify({ ...answer, results: left })) : undefined;
}
