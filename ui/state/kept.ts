/** Entries of the history whose values are kept; the pages of older ones load again. */
const MOST = 20;

/** By entry of the history and name, the entry that was used last at the end. */
const kept = new Map<string, Map<string, unknown>>();

/** Keeps a value for an entry of the history, so that Back shows the page as it was. */
export function keep(entry: string, name: string, value: unknown): void {
  const values = (kept.get(entry) ?? new Map<string, unknown>()).set(name, value);
  kept.delete(entry);
  kept.set(entry, values);
  const [oldest] = kept.keys();
  if (kept.size > MOST && oldest !== undefined) kept.delete(oldest);
}

/** The value of an entry. The caller names the type under which it keeps the name. */
export function keptValue<T>(entry: string, name: string): T | undefined {
  return kept.get(entry)?.get(name) as T | undefined;
}

const SCROLL = 'scroll';

/** Keeps the place of the page for an entry that is left. */
export function keepScroll(entry: string): void {
  keep(entry, SCROLL, window.scrollY);
}

/** The place of the page when the entry was left, once; pixels from the top. */
export function takeScroll(entry: string): number | undefined {
  const top = keptValue<number>(entry, SCROLL);
  kept.get(entry)?.delete(SCROLL);
  return top;
}

/** Drops every value: they show data that was deleted, or belong to a session that ended. */
export function dropKept(): void {
  kept.clear();
}
