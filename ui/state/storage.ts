/** The values that a browser keeps. Without storage, in a private window for example, it keeps none. */
const PREFIX = 'tracectl.';

export function recall(name: string): string | undefined {
  try {
    return localStorage.getItem(PREFIX + name) ?? undefined;
  } catch {
    return undefined;
  }
}

export function remember(name: string, value: string): void {
  try {
    localStorage.setItem(PREFIX + name, value);
  } catch {
    // The page works without it.
  }
}
