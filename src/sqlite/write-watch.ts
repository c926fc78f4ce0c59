import type { Clock, Logger } from '../component/component.ts';
import { RetryableError } from '../model/errors.ts';

/** The pause between two probes of a file whose writes fail. */
const PROBE_MS = 1000;

type WriteWatchOptions = {
  readonly file: string;
  readonly clock: Clock;
  readonly logger: Logger;
};

/**
 * Knows whether the writes of a database reach its files. A file that takes no writes is probed until it does: a service that is not ready
 * gets no requests, so no other write may come.
 */
export class WriteWatch {
  readonly #options: WriteWatchOptions;
  /** Writes a page and syncs it. */
  #probe: (() => Promise<unknown>) | undefined;
  #failure: string | undefined;
  #unsynced: string | undefined;
  #isSuspected = false;
  #isClosed = false;
  #cancel = (): void => {};

  constructor(options: WriteWatchOptions) {
    this.#options = options;
  }

  /** A sentence on the failure; undefined while writes succeed. */
  get trouble(): string | undefined {
    if (this.#unsynced !== undefined) {
      return `A sync of the files failed (${this.#unsynced}): restart the daemon.`;
    }
    return this.#failure && `The files cannot be written: ${this.#failure}.`;
  }

  /** The reason why no write can succeed in this process. */
  shortage(): Error | undefined {
    if (this.#unsynced === undefined) return undefined;
    const message = 'a sync of the database failed';
    return new RetryableError('storage_failed', message, { retryAfterMs: 5000 });
  }

  /** Starts to probe when a write has failed. */
  watch(probe: () => Promise<unknown>): void {
    this.#probe = probe;
    if (this.#failure !== undefined) this.#probeLater();
  }

  failed(message: string): void {
    if (this.#failure !== undefined || this.#isClosed) return;
    this.#failure = message;
    const { file, logger } = this.#options;
    logger.error({ file, err: message }, 'Database cannot be written; retrying');
    this.#probeLater();
  }

  /**
   * A write failed because the disk could not read a part of the file. A probe tells a failing disk from a part that only some calls need.
   */
  suspect(message: string): void {
    const probe = this.#probe;
    if (probe === undefined || this.#isSuspected || this.trouble !== undefined) return;
    this.#isSuspected = true;
    probe().then(
      () => {
        this.#isSuspected = false;
      },
      () => {
        this.#isSuspected = false;
        this.failed(message);
      },
    );
  }

  /** The thread writes no more, because the kernel may have dropped pages that it could not write. */
  unsynced(message: string): void {
    if (this.#unsynced !== undefined || this.#isClosed) return;
    this.#unsynced = message;
    const { file, logger } = this.#options;
    logger.error({ file, err: message }, 'Sync of the database failed; restart the daemon');
  }

  #probeLater(): void {
    const probe = this.#probe;
    if (probe === undefined || this.#isClosed) return;
    this.#cancel = this.#options.clock.after(PROBE_MS, () => {
      probe().then(
        () => this.#succeeded(),
        () => this.#probeLater(),
      );
    });
  }

  #succeeded(): void {
    if (this.#isClosed) return;
    this.#failure = undefined;
    this.#options.logger.info({ file: this.#options.file }, 'Database can be written again');
  }

  close(): void {
    this.#isClosed = true;
    this.#cancel();
  }
}
