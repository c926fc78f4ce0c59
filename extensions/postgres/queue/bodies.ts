import type { SealedBatch } from '../../../src/model/batch.ts';
import { bodyCache } from '../../../src/queue/body-cache.ts';
import type { StoreDatabase } from '../database.ts';

const CACHE_BYTES = 32 * 1024 * 1024;

/** The batches of leased entries: the newest from memory, the others from the database. */
export class LeasedBodies {
  readonly #database: Pick<StoreDatabase, 'readBatches'>;
  readonly #cache = bodyCache(CACHE_BYTES);
  /** The `seq` that a batch has in the cache, by batch id. */
  readonly #cached = new Map<string, number>();

  constructor(database: Pick<StoreDatabase, 'readBatches'>) {
    this.#database = database;
  }

  keep(seq: number, batch: SealedBatch): void {
    this.#cache.put(seq, batch);
    if (this.#cache.get(seq) !== undefined) this.#cached.set(batch.id, seq);
  }

  forget(batchId: string): void {
    const seq = this.#cached.get(batchId);
    if (seq === undefined) return;
    this.#cached.delete(batchId);
    this.#cache.delete(seq);
  }

  /** By id; a batch that does not exist any more is left out. */
  async read(batchIds: readonly string[]): Promise<ReadonlyMap<string, SealedBatch>> {
    const found = new Map<string, SealedBatch>();
    const missing = new Set<string>();
    for (const id of batchIds) {
      const batch = this.#inMemory(id);
      if (batch === undefined) missing.add(id);
      else found.set(id, batch);
    }
    if (missing.size === 0) return found;
    for (const [id, batch] of await this.#database.readBatches([...missing])) found.set(id, batch);
    return found;
  }

  #inMemory(batchId: string): SealedBatch | undefined {
    const seq = this.#cached.get(batchId);
    const batch = seq === undefined ? undefined : this.#cache.get(seq);
    // After a failover another batch may have the number.
    return batch?.id === batchId ? batch : undefined;
  }
}
