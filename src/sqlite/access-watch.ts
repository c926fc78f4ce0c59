import type { Clock, Logger } from '../component/component.ts';
import { RetryableError } from '../model/errors.ts';
import type { ThreadAccess } from './operation.ts';

/** The pause between two probes of a file whose writes, or reads, fail. */
const PROBE_MS = 1000;
const WORDS = {
  write: {
    trouble: 'The files cannot be written',
    failed: 'Database cannot be written; retrying',
    succeeded: 'Database can be written again',
  },
  read: {
    trouble: 'The files cannot be read',
    failed: 'Database cannot be read; retrying',
    succeeded: 'Database can be read again',
  },
} as const;

type AccessWatchOptions = {
  readonly file: string;
  readonly access: ThreadAccess;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Accesses succeed again that failed since this uptime of the machine, in milliseconds. */
  readonly onRecovered: (since: number) => void;
};

/**
 * Knows whether the writes, or the reads, of a database reach its files. A file that refuses them is probed until it takes them: a service
 * that is not ready gets no requests, so no other write or read may come.
 */
export class AccessWatch {
  readonly #options: AccessWatchOptions;
  readonly #words: (typeof WORDS)[ThreadAccess];
  /** Writes a page and syncs it, or reads what every request needs. */
  #probe: (() => Promise<unknown>) | undefined;
  #failure: string | undefined;
  #unsynced: string | undefined;
  #isSuspected = false;
  /** The uptime since which calls fail. */
  #since: number | undefined;
  #isClosed = false;
  #cancel = (): void => {};

  constructor(options: AccessWatchOptions) {
    this.#options = options;
    this.#words = WORDS[options.access];
  }

  /** A sentence on the failure; undefined while the file takes them. */
  get trouble(): string | undefined {
    if (this.#unsynced !== undefined) {
      return `A sync of the files failed (${this.#unsynced}): restart the daemon.`;
    }
    return this.#failure && `${this.#words.trouble}: ${this.#failure}.`;
  }

  /** The reason why no write can succeed in this process. */
  shortage(): Error | undefined {
    if (this.#unsynced === undefined) return undefined;
    const message = 'a sync of the database failed';
    return new RetryableError('storage_failed', message, { retryAfterMs: 5000 });
  }

  /** Starts to probe when one has failed. */
  watch(probe: () => Promise<unknown>): void {
    this.#probe = probe;
    if (this.#failure !== undefined) this.#probeLater();
  }

  failed(message: string): void {
    if (this.#failure !== undefined || this.#isClosed) return;
    this.#failure = message;
    this.#since ??= this.#options.clock.uptime();
    const { file, logger } = this.#options;
    logger.error({ file, err: message }, this.#words.failed);
    this.#probeLater();
  }

  /**
   * A call failed because the disk could not read a part of the file. A probe tells a failing disk from a part that only some calls need.
   */
  suspect(message: string): void {
    const probe = this.#probe;
    if (probe === undefined || this.#isSuspected || this.trouble !== undefined) return;
    this.#isSuspected = true;
    this.#since = this.#options.clock.uptime();
    probe().then(
      () => {
        this.#isSuspected = false;
        this.#since = undefined;
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
    const { file, clock, logger, onRecovered } = this.#options;
    const since = this.#since ?? clock.uptime();
    this.#failure = undefined;
    this.#since = undefined;
    logger.info({ file }, this.#words.succeeded);
    onRecovered(since);
  }

  close(): void {
    this.#isClosed = true;
    this.#cancel();
  }
}
