/**
 * The type that an `Accept` header prefers: the one with the largest weight, among equals the one that the header names
 * first, then the first of `types`. Undefined if it takes none of them.
 */
export function preferredType<T extends string>(
  accept: string,
  types: readonly T[],
): T | undefined {
  const ranges = accept.toLowerCase().split(',').map(rangeOf);
  const weighed = types.map((type) => ({ type, ...weightOf(ranges, type) }));
  const [best] = weighed.sort((a, b) => b.weight - a.weight || a.at - b.at);
  return best === undefined || best.weight === 0 ? undefined : best.type;
}

type MediaRange = { readonly range: string; readonly weight: number };

function rangeOf(text: string): MediaRange {
  const [range = '', ...parameters] = text.split(';').map((each) => each.trim());
  const written = parameters.find((each) => each.startsWith('q='))?.slice(2);
  const weight = Number(written ?? 1);
  return { range, weight: weight >= 0 && weight <= 1 ? weight : 0 };
}

/** The most specific range that names the type decides. A range with `*` has no place of its own. */
function weightOf(ranges: readonly MediaRange[], type: string): { weight: number; at: number } {
  const named = ranges.findIndex(({ range }) => range === type);
  if (named !== -1) return { weight: ranges[named]?.weight ?? 0, at: named };
  const group = `${type.slice(0, type.indexOf('/'))}/*`;
  const wide = [group, '*/*'].flatMap((range) => ranges.filter((each) => each.range === range));
  return { weight: wide[0]?.weight ?? 0, at: ranges.length };
}
