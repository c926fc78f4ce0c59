import type { Clock, Logger } from '../component/component.ts';
import type { FileIdentities } from './file-identity.ts';
import { movedLater } from './file-identity.ts';

/** The interval of looking whether the files are in their places. */
const LOOK_MS = 1000;

/** Watches whether paths lead to the files that this process has open. */
export type FileWatch = {
  /** A sentence on the file that was removed or replaced; undefined while all files are in their places. */
  readonly removed: string | undefined;
  /** The writing thread found that this path does not lead to its file. */
  found(path: string): void;
  close(): Promise<void>;
};

export type FileWatchOptions = {
  readonly identities: FileIdentities;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Called once, when a file was removed or replaced. */
  readonly onRemoved: () => void;
};

export function watchFiles(options: FileWatchOptions): FileWatch {
  const { identities, clock, logger, onRemoved } = options;
  let removed: string | undefined;
  let isClosed = false;
  let looking: Promise<void> = Promise.resolve();
  let cancel = clock.after(LOOK_MS, look);

  function look(): void {
    looking = movedLater(identities).then((path) => {
      if (isClosed || removed !== undefined) return;
      if (path !== undefined) found(path);
      else cancel = clock.after(LOOK_MS, look);
    });
  }

  function found(path: string): void {
    if (isClosed || removed !== undefined) return;
    cancel();
    removed = `${path} was removed or replaced while tracectl had it open: new data would be lost. Put the data directory back, or restore a backup, before the next start.`;
    logger.error({ path, reason: removed }, 'Data directory removed or replaced; stopping');
    onRemoved();
  }

  return {
    get removed() {
      return removed;
    },
    found,
    async close() {
      isClosed = true;
      cancel();
      await looking;
    },
  };
}
