declare const offered: unique symbol;
/** A typed name for what an extension or the host offers, e.g. `STORE` in src/store. */
export type Capability<T> = { readonly name: string; readonly [offered]?: T };

export function capability<T>(name: string): Capability<T> {
  return { name };
}
