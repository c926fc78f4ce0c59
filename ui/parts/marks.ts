/** Bars that a person marks, by their index: from the first one to the one that a pointer or a key moves. */
export type Marked = { readonly from: number; readonly to: number };

/** The indexes of the first and the last marked bar. */
export function endsOf({ from, to }: Marked): readonly [first: number, last: number] {
  return [Math.min(from, to), Math.max(from, to)];
}

/** The bars that are marked after a key; undefined if the key does nothing. `isExtended` keeps the first one. */
export function markedBy(
  key: string,
  before: Marked | undefined,
  { count, isExtended }: { readonly count: number; readonly isExtended: boolean },
): Marked | undefined {
  const last = count - 1;
  const at = before?.to ?? count;
  const targets: Readonly<Record<string, number>> = {
    ...{ ArrowLeft: at - 1, ArrowDown: at - 1, ArrowRight: at + 1, ArrowUp: at + 1 },
    ...{ Home: 0, End: last },
  };
  const target = targets[key];
  if (target === undefined || count === 0) return undefined;
  const to = Math.min(Math.max(target, 0), last);
  return { from: isExtended && before !== undefined ? before.from : to, to };
}
