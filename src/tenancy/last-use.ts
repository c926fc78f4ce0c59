import type { Clock, Logger } from '../component/component.ts';
import type { KeyUse } from './rows.ts';

/** Delay until a first use is stored, well below the documented 10 s. */
const FLUSH_MS = 5000;
/** Interval of the writes for a key in constant use. */
const QUIET_MS = 60_000;

export type LastUse = {
  note(keyId: string, usedAt: number): void;
  close(): Promise<void>;
};

/** Buffers the last uses of keys and writes them in the background, at most once a minute for each key. */
export function lastUse(
  write: (uses: readonly KeyUse[]) => Promise<void>,
  clock: Clock,
  logger: Logger,
): LastUse {
  const noted = new Map<string, number>();
  const writtenAt = new Map<string, number>();
  let cancel: (() => void) | undefined;

  function note(keyId: string, usedAt: number): void {
    noted.set(keyId, usedAt);
    cancel ??= clock.after(FLUSH_MS, () => {
      cancel = undefined;
      void flush(false);
    });
  }

  async function flush(isLast: boolean): Promise<void> {
    const now = clock.now();
    const uses: KeyUse[] = [];
    for (const [keyId, usedAt] of noted) {
      const before = writtenAt.get(keyId);
      if (!isLast && before !== undefined && Math.abs(now - before) < QUIET_MS) continue;
      uses.push({ id: keyId, usedAt });
      noted.delete(keyId);
      writtenAt.set(keyId, now);
    }
    for (const [keyId, at] of writtenAt)
      if (Math.abs(now - at) >= QUIET_MS) writtenAt.delete(keyId);
    if (uses.length === 0) return;
    try {
      await write(uses);
    } catch (error) {
      // Last uses are for display only, and the next use writes the row again.
      logger.warn({ err: error, keys: uses.length }, 'Last-used times of keys could not be saved');
    }
  }

  async function close(): Promise<void> {
    cancel?.();
    cancel = undefined;
    await flush(true);
  }

  return { note, close };
}
