import { pause } from '../../component/clock.ts';
import type { Clock, Logger } from '../../component/component.ts';
import { RetryableError } from '../../model/errors.ts';
import type { Database } from '../database.ts';
import type { QueueOperations } from './operations.ts';

type WriteOperations = QueueOperations['write'];

/** The delay until the end of a lease that could not be written is written again. */
export const REWRITE_MS = 1000;

type LeaseEndsOptions = {
  readonly queue: string;
  readonly database: Database<QueueOperations>;
  readonly clock: Clock;
  readonly logger: Logger;
};

/**
 * Writes the ends of leases, with the next group of other calls. A write is retried until it succeeds: after a crash before that, the entry is
 * delivered again.
 */
export class LeaseEnds {
  readonly #options: LeaseEndsOptions;
  /** Ends that wait to be written again. */
  #failed = 0;
  #isClosed = false;

  constructor(options: LeaseEndsOptions) {
    this.#options = options;
  }

  write<Name extends keyof WriteOperations>(
    name: Name,
    args: Parameters<WriteOperations[Name]>,
    withinMs?: number,
  ): Promise<ReturnType<WriteOperations[Name]>> {
    const write = () => this.#options.database.write(name, args, { lazy: withinMs ?? true });
    return write().catch((error: unknown) => this.#retry(error, write));
  }

  /** Retries no more. */
  close(): void {
    this.#isClosed = true;
  }

  /** `error` is that of the first write. One line is for all ends of an outage. */
  async #retry<Result>(error: unknown, write: () => Promise<Result>): Promise<Result> {
    const { queue, logger } = this.#options;
    this.#check(error);
    this.#failed++;
    if (this.#failed === 1) {
      logger.warn({ queue, err: error }, 'End of leases could not be written; retrying');
    }
    try {
      const written = await this.#repeat(error, write);
      // The last one is still counted.
      if (this.#failed === 1) logger.info({ queue }, 'End of leases written after a failure');
      return written;
    } finally {
      this.#failed--;
    }
  }

  async #repeat<Result>(first: unknown, write: () => Promise<Result>): Promise<Result> {
    let error = first;
    for (;;) {
      await pause(this.#options.clock, REWRITE_MS);
      if (this.#isClosed) throw error;
      try {
        return await write();
      } catch (next) {
        this.#check(next);
        error = next;
      }
    }
  }

  #check(error: unknown): void {
    if (this.#isClosed || !(error instanceof RetryableError)) throw error;
  }
}
