import { Background } from '../../component/background.ts';
import type { Clock, Logger } from '../../component/component.ts';
import type { SealedBatch } from '../../model/batch.ts';
import type { BatchRecord } from '../../queue/record.ts';
import { recordOf } from '../../queue/record.ts';
import type { Database } from '../database.ts';
import type { QueueOperations } from './operations.ts';
import type { WrittenParts } from './part-operations.ts';

/** Up to this size a body is written with its batch. */
export const WHOLE_BYTES = 2 * 1024 * 1024;
/** The size of a part: it delays calls of other requests by about ten milliseconds. */
export const PART_BYTES = 1024 * 1024;
/** The pause between two parts that are deleted. */
const SWEEP_MS = 50;
const NO_BYTES = new Uint8Array(0);

/**
 * Writes large bodies part by part, each in a group of its own, so that no other request waits for all of them:
 *
 *   part ─(synced)─▶ part ─(synced)─▶ … ─▶ the batch with everything else, which makes the body visible
 */
export class LargeBodies {
  readonly #database: Database<QueueOperations>;
  readonly #sweeping: Background;
  /** Bodies that are being written, by project. */
  readonly #writing = new Map<string, number>();
  /** Numbers of parts that still have to be freed. */
  #toFree: number[] = [];

  constructor(database: Database<QueueOperations>, clock: Clock, logger: Logger) {
    this.#database = database;
    this.#sweeping = new Background({
      clock,
      logger,
      betweenMs: SWEEP_MS,
      failure: 'Orphaned parts of large bodies could not be deleted; retrying',
      step: async () => {
        await this.#free();
        return database.write('parts.sweep', [], { lazy: true });
      },
    });
    this.#sweeping.wake();
  }

  isLarge(batch: SealedBatch): boolean {
    return batch.body.byteLength > WHOLE_BYTES;
  }

  /** Stores a batch whose body may be large. Resolves with null, and stores nothing, if its project was deleted. */
  async store<Result>(
    batch: SealedBatch,
    store: (record: BatchRecord, parts: WrittenParts | null) => Promise<Result>,
  ): Promise<Result | null> {
    if (!this.isLarge(batch)) return store(recordOf(batch), null);
    const parts = await this.write(batch);
    if (parts === null) return null;
    try {
      return await store(recordOf(batch, NO_BYTES), parts);
    } finally {
      await this.end(batch.tenant.projectId, parts.numbers);
    }
  }

  /**
   * Resolves when all parts are synced; null if the project was deleted. The caller then stores the batch, and calls
   * `end` whether or not that succeeded.
   */
  async write({ tenant, body }: SealedBatch): Promise<WrittenParts | null> {
    const { projectId } = tenant;
    this.#writing.set(projectId, (this.#writing.get(projectId) ?? 0) + 1);
    const numbers: number[] = [];
    let crc = 0;
    try {
      for (let at = 0; at < body.byteLength; at += PART_BYTES) {
        // A copy, so that its bytes can move to the thread.
        const bytes = new Uint8Array(body.subarray(at, at + PART_BYTES));
        const options = { weight: bytes.byteLength, moved: bytes.buffer };
        const part = await this.#database.write('parts.write', [projectId, crc, [bytes]], options);
        if (part === null) {
          await this.end(projectId, numbers);
          return null;
        }
        numbers.push(part.number);
        crc = part.crc;
      }
    } catch (error) {
      await this.end(projectId, numbers);
      throw error;
    }
    return { numbers, crc };
  }

  /** Frees the parts, unless a batch has them. */
  async end(projectId: string, numbers: readonly number[]): Promise<void> {
    this.#toFree.push(...numbers);
    try {
      if (numbers.length > 0) await this.#free();
    } finally {
      const others = (this.#writing.get(projectId) ?? 1) - 1;
      if (others === 0) this.#writing.delete(projectId);
      else this.#writing.set(projectId, others);
    }
  }

  /** Parts that cannot be freed now are freed with the next ones, or after the next opening. */
  async #free(): Promise<void> {
    if (this.#toFree.length === 0) return;
    const numbers = this.#toFree;
    this.#toFree = [];
    try {
      await this.#database.write('parts.free', [numbers]);
      this.#sweeping.wake();
    } catch {
      this.#toFree.push(...numbers);
    }
  }

  /** Whether a body of the project is being written: some of its parts are neither a batch's nor free. */
  isWriting(projectId: string): boolean {
    return this.#writing.has(projectId);
  }

  /** Deletes all free parts now. */
  finish(): Promise<void> {
    return this.#sweeping.finish();
  }

  close(): Promise<void> {
    return this.#sweeping.close();
  }

  /** Ends without another write. */
  crash(): void {
    this.#sweeping.stop();
  }
}
