import { dirname } from 'node:path';
import type { Metrics } from '../component/component.ts';
import { RetryableError } from '../model/errors.ts';
import { AccessWatch } from './access-watch.ts';
import type { DatabaseOptions } from './database.ts';
import type { DiskHealth, OwnedDirectory } from './directory.ts';
import { completedWritesOf } from './disk-writes.ts';
import { identitiesOf } from './file-identity.ts';
import type { FileWatch } from './file-watch.ts';
import { watchFiles } from './file-watch.ts';
import type { AttachedFile, Call, Opening, ThreadAccess } from './operation.ts';
import { StallWatch } from './stall-watch.ts';
import type { ThreadEvents } from './thread-client.ts';

/** The health of a database: the disk's, and that of its files. */
export type DatabaseHealth = {
  readonly ready: boolean;
  readonly healthy: boolean;
  readonly message?: string;
  readonly details: DiskHealth['details'] & {
    /** The damage that was found; null if none was. */
    readonly damage: string | null;
  };
};

/** The interval of reading again what was damaged. */
const READ_AGAIN_MS = 60_000;
/** The damage that a call finds is reported before the failure of the call, and a machine may count its uptime in seconds. */
const BEFORE_FAILURE_MS = 1000;

/** Damage in the file that is in use. */
type Damage = {
  readonly message: string;
  /** The uptime at which it was found. */
  readonly at: number;
  /** The read that found it; undefined for a write. */
  readonly call: Call | undefined;
};

/** Knows whether the files of an open database are in their places, and sound. */
export class FileCondition implements ThreadEvents {
  readonly #options: DatabaseOptions;
  readonly #directory: OwnedDirectory;
  readonly #writes: AccessWatch;
  readonly #reads: AccessWatch;
  readonly #stalls: StallWatch;
  #files: FileWatch | undefined;
  /** The sentence about the last damage, which stays when it is mended. */
  #damage: string | undefined;
  /** The damage in force; undefined if it is mended, or if the start has set it aside. */
  #found: Damage | undefined;
  #readAgain: ((call: Call) => Promise<unknown>) | undefined;
  #cancelReading = (): void => {};
  #isClosed = false;
  /** Why the thread of writes has ended. */
  #ended: Error | undefined;

  constructor(options: DatabaseOptions, directory: OwnedDirectory) {
    this.#options = options;
    this.#directory = directory;
    const { clock, logger } = options;
    const onRecovered = (since: number): void => this.#recovered(since);
    const watched = { file: directory.databaseFile, clock, logger, onRecovered };
    this.#writes = new AccessWatch({ ...watched, access: 'write' });
    this.#reads = new AccessWatch({ ...watched, access: 'read' });
    const { completedWrites = completedWritesOf(dirname(directory.databaseFile)) } = options;
    this.#stalls = new StallWatch({ ...watched, completedWrites });
  }

  get isDamaged(): boolean {
    return this.#damage !== undefined;
  }

  /** Starts to watch the files. The probes write to the database, and read what every request needs; `again` repeats a read. */
  watch(
    probes: Readonly<Record<ThreadAccess, () => Promise<unknown>>>,
    again: (call: Call) => Promise<unknown>,
  ): void {
    this.#readAgain = again;
    const { clock, logger, onRemoved = () => undefined } = this.#options;
    const identities = identitiesOf(this.#directory.watched);
    this.#files = watchFiles({ identities, clock, logger, onRemoved });
    this.#writes.watch(probes.write);
    this.#reads.watch(probes.read);
  }

  /** Logs what the opening found and changed. */
  opened({ corrupt, migrated, mended, log, reserveUsed }: Opening): void {
    const { logger } = this.#options;
    const file = this.#directory.databaseFile;
    if (reserveUsed) {
      logger.error({ file }, 'Disk is full; reserve released to open the database');
      this.reserveUsed();
    }
    if (migrated !== undefined) logger.info({ file, ...migrated }, 'Tables migrated');
    if (mended !== undefined) {
      this.#damage = 'The version number in the header was damaged, and was corrected.';
      logger.error({ file, ...mended }, 'Version number of the database damaged; corrected');
    }
    if (log !== undefined) {
      this.#damage = `The log was damaged: ${log.commits} commits behind the damage are lost.`;
      logger.error({ file, ...log }, 'Log of the database damaged; commits behind the damage lost');
    }
    if (corrupt !== undefined) {
      this.#damage = 'The file was damaged; readable rows were copied into a new one at the start.';
      logger.error(
        { file, kept: corrupt },
        'Database damaged; set aside, readable rows copied into a new file',
      );
    }
  }

  reserveUsed(): void {
    this.#directory.reserveWasUsed();
  }

  /** SQLite takes most of what a disk cannot read for damage, also if the disk can read it again. */
  damaged(message: string, call: Call | undefined): void {
    if (this.#found !== undefined) return;
    const damage = { message, at: this.#options.clock.uptime(), call };
    this.#found = damage;
    this.#readLater(damage);
    this.#damage = `The file is damaged (${message}): stop the daemon and run "tracectl salvage".`;
    this.#options.logger.error(
      { file: this.#directory.databaseFile, err: message },
      'Database damaged; some data cannot be read or written',
    );
  }

  /** Damage stays where it is: a read that found some, and then succeeds, met a failing disk. */
  #readLater(damage: Damage): void {
    const { call } = damage;
    if (call === undefined || this.#isClosed) return;
    this.#cancelReading = this.#options.clock.after(READ_AGAIN_MS, () => {
      this.#readAgain?.(call).then(
        () => this.#mended(damage),
        () => this.#found === damage && this.#readLater(damage),
      );
    });
  }

  /** A probe failed, and succeeds again: the disk failed, and not the file, in all that calls met since the first of them failed. */
  #recovered(since: number): void {
    const found = this.#found;
    if (found !== undefined && found.at >= since - BEFORE_FAILURE_MS) this.#mended(found);
  }

  #mended(damage: Damage): void {
    if (this.#found !== damage || this.#isClosed) return;
    this.#cancelReading();
    this.#found = undefined;
    this.#damage = `A part of the file could not be read (${damage.message}); it can be read again.`;
    this.#options.logger.info(
      { file: this.#directory.databaseFile },
      'Database can be read again where it seemed damaged',
    );
  }

  moved(path: string): void {
    this.#files?.found(path);
  }

  unwritable(message: string): void {
    this.#writes.failed(message);
  }

  unreadable(access: ThreadAccess, message: string): void {
    (access === 'write' ? this.#writes : this.#reads).suspect(message);
  }

  attachedFailed(file: AttachedFile, message: string): void {
    this.#options.onAttachedFailed?.(file, message);
  }

  unsynced(message: string): void {
    this.#writes.unsynced(message);
  }

  sent(): void {
    this.#stalls.sent();
  }

  answered(): void {
    this.#stalls.answered();
  }

  ended(access: ThreadAccess, reason: Error): void {
    const fields = { file: this.#directory.databaseFile, err: reason };
    const { logger } = this.#options;
    if (access === 'read') {
      logger.error(fields, 'Thread that reads the database ended; the next read starts another');
      return;
    }
    this.#ended = reason;
    logger.error(fields, 'Thread that writes the database ended; restart the daemon');
  }

  /** The reason why nothing may be appended; undefined while the files are in their places, and take writes and syncs. */
  shortage(): Error | undefined {
    if (this.#ended !== undefined) return this.#ended;
    if (this.#files?.removed === undefined) {
      return this.#writes.shortage() ?? this.#stalls.shortage();
    }
    const message = 'the data directory was removed or replaced';
    return new RetryableError('storage_failed', message, { retryAfterMs: 5000 });
  }

  health(): DatabaseHealth {
    const { ready, message, details } = this.#directory.health();
    const unusable =
      this.#files?.removed ??
      this.#ended?.message ??
      this.#writes.trouble ??
      this.#stalls.trouble ??
      this.#reads.trouble;
    const shown = unusable ?? message ?? this.#damage;
    return {
      ready: ready && unusable === undefined,
      healthy: unusable === undefined && this.#found === undefined,
      ...(shown === undefined ? {} : { message: shown }),
      details: { ...details, damage: this.#damage ?? null },
    };
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancelReading();
    this.#writes.close();
    this.#reads.close();
    this.#stalls.close();
    await this.#files?.close();
  }
}

/** Shows whether damage was found; the returned function removes the gauge. */
export function registerDamage(
  metrics: Metrics,
  extension: string,
  isDamaged: () => boolean,
): () => void {
  return metrics.gauge(
    'tracectl_storage_damaged',
    '1 if damage to the files of the extension was found since the start, else 0.',
    () => [{ value: isDamaged() ? 1 : 0, labels: { extension } }],
  );
}
