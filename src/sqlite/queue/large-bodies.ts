import { Background } from '../../component/background.ts';
import type { Clock, Logger } from '../../component/component.ts';
import type { SealedBatch } from '../../model/batch.ts';
import type { Database } from '../database.ts';
import type { WrittenParts } from './part-operations.ts';

/** Up to here a body is written with its batch. */
export const WHOLE_BYTES = 2 * 1024 * 1024;
/** A part: what others wait for when they come in between, about ten milliseconds. */
export const PART_BYTES = 1024 * 1024;
/** Between two parts that are removed. */
const SWEEP_MS = 50;

/**
 * Writes large bodies part by part, each in a group of its own, so that nobody waits for all of them:
 *
 *   part ─(synced)─▶ part ─(synced)─▶ … ─▶ the batch with everything else, which makes the body visible
 */
export class LargeBodies {
  readonly #database: Database;
  readonly #sweeping: Background;
  readonly #writing = new Map<string, number>();
  /** Numbers of parts that could not be freed yet. */
  #left: number[] = [];

  constructor(database: Database, clock: Clock, logger: Logger) {
    this.#database = database;
    this.#sweeping = new Background({
      clock,
      logger,
      betweenMs: SWEEP_MS,
      failure: 'parts of bodies that are stored nowhere could not be removed yet',
      step: async () => {
        await this.#free();
        return (await database.write('parts.sweep', [], { lazy: true })) === true;
      },
    });
    this.#sweeping.wake();
  }

  isLarge(batch: SealedBatch): boolean {
    return batch.body.byteLength > WHOLE_BYTES;
  }

  /**
   * Resolves when all parts are synced; null where the project was deleted. Whoever called it stores the
   * batch then, and calls `end` however that went.
   */
  async write({ tenant, body }: SealedBatch): Promise<WrittenParts | null> {
    const { projectId } = tenant;
    this.#writing.set(projectId, (this.#writing.get(projectId) ?? 0) + 1);
    const numbers: number[] = [];
    let crc = 0;
    try {
      for (let at = 0; at < body.byteLength; at += PART_BYTES) {
        // A copy of its own, so that it can move to the thread.
        const bytes = new Uint8Array(body.subarray(at, at + PART_BYTES));
        const options = { weight: bytes.byteLength, moved: bytes.buffer };
        const written = await this.#database.write(
          'parts.write',
          [projectId, crc, [bytes]],
          options,
        );
        if (written === null) {
          await this.end(projectId, numbers);
          return null;
        }
        const [number, crcSoFar] = written as readonly [number, number];
        numbers.push(number);
        crc = crcSoFar;
      }
    } catch (error) {
      await this.end(projectId, numbers);
      throw error;
    }
    return [numbers, crc];
  }

  /** The parts go, unless a batch has them now. */
  async end(projectId: string, numbers: readonly number[]): Promise<void> {
    this.#left.push(...numbers);
    try {
      if (numbers.length > 0) await this.#free();
    } finally {
      const others = (this.#writing.get(projectId) ?? 1) - 1;
      if (others === 0) this.#writing.delete(projectId);
      else this.#writing.set(projectId, others);
    }
  }

  /** What cannot be freed now is freed with the next, or after the next opening. */
  async #free(): Promise<void> {
    if (this.#left.length === 0) return;
    const numbers = this.#left;
    this.#left = [];
    try {
      await this.#database.write('parts.free', [numbers]);
      this.#sweeping.wake();
    } catch {
      this.#left.push(...numbers);
    }
  }

  /** Whether parts of a project's bodies are not yet a batch's, nor free. */
  isWriting(projectId: string): boolean {
    return this.#writing.has(projectId);
  }

  /** Removes now what is free. */
  finish(): Promise<void> {
    return this.#sweeping.finish();
  }

  close(): Promise<void> {
    return this.#sweeping.close();
  }

  /** Ends without writing anything more. */
  crash(): void {
    this.#sweeping.stop();
  }
}
