export type LruLimits<V> = {
  readonly maxEntries: number;
  /** Sum of `weightOf` over the entries, e.g. in bytes. Without it only `maxEntries` counts. */
  readonly maxWeight?: number;
  readonly weightOf?: (value: V) => number;
};

/**
 * A map with limits that evicts the least recently used entry first. `get` and `set` count as use. All
 * operations are O(1), except that `set` may evict several entries.
 */
export class LruCache<K, V> {
  /** In order of last use: a map iterates in the order of insertion. */
  readonly #entries = new Map<K, { readonly value: V; readonly weight: number }>();
  readonly #maxEntries: number;
  readonly #maxWeight: number;
  readonly #weightOf: (value: V) => number;
  #weight = 0;

  constructor({ maxEntries, maxWeight = Infinity, weightOf = () => 0 }: LruLimits<V>) {
    this.#maxEntries = maxEntries;
    this.#maxWeight = maxWeight;
    this.#weightOf = weightOf;
  }

  get size(): number {
    return this.#entries.size;
  }

  get weight(): number {
    return this.#weight;
  }

  get(key: K): V | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    return entry.value;
  }

  /** Does not count as use. */
  peek(key: K): V | undefined {
    return this.#entries.get(key)?.value;
  }

  /** The entry that was just set always stays, even if it is heavier than `maxWeight`. */
  set(key: K, value: V): void {
    this.delete(key);
    const weight = this.#weightOf(value);
    this.#evict(this.#maxEntries - 1, this.#maxWeight - weight);
    this.#entries.set(key, { value, weight });
    this.#weight += weight;
  }

  /** Evicts entries until another one of this weight fits, or none is left. */
  makeRoom(weight: number): void {
    this.#evict(this.#maxEntries - 1, this.#maxWeight - weight);
  }

  delete(key: K): void {
    const entry = this.#entries.get(key);
    if (entry === undefined) return;
    this.#entries.delete(key);
    this.#weight -= entry.weight;
  }

  deleteWhere(matches: (value: V) => boolean): void {
    for (const [key, { value }] of this.#entries) if (matches(value)) this.delete(key);
  }

  #evict(maxEntries: number, maxWeight: number): void {
    for (const key of this.#entries.keys()) {
      if (this.#entries.size <= maxEntries && this.#weight <= maxWeight) return;
      this.delete(key);
    }
  }
}
