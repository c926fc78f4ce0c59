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
  let isClosed = false;

  function note(keyId: string, usedAt: number): void {
    noted.set(keyId, usedAt);
    flushLater();
  }

  function flushLater(): void {
    if (isClosed) return;
    cancel ??= clock.after(FLUSH_MS, () => {
      cancel = undefined;
      void flush();
    });
  }

  async function flush(): Promise<void> {
    const now = clock.now();
    const uses: KeyUse[] = [];
    for (const [keyId, usedAt] of noted) {
      const before = writtenAt.get(keyId);
      if (!isClosed && before !== undefined && Math.abs(now - before) < QUIET_MS) continue;
      uses.push({ id: keyId, usedAt });
      noted.delete(keyId);
      writtenAt.set(keyId, now);
    }
    for (const [keyId, at] of writtenAt)
      if (Math.abs(now - at) >= QUIET_MS) writtenAt.delete(keyId);
    if (uses.length > 0) await writeAll(uses);
    // Keys that were written less than a minute ago, or could not be written, wait.
    if (noted.size > 0) flushLater();
  }

  async function writeAll(uses: readonly KeyUse[]): Promise<void> {
    try {
      await write(uses);
    } catch (error) {
      logger.warn({ err: error, keys: uses.length }, 'Last-used times of keys could not be saved');
      for (const { id, usedAt } of uses) if (!noted.has(id)) noted.set(id, usedAt);
    }
  }

  async function close(): Promise<void> {
    isClosed = true;
    cancel?.();
    cancel = undefined;
    await flush();
  }

  return { note, close };
}
