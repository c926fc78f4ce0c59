import type { SealedBatch } from '../../src/model/batch.ts';
import { RetryableError } from '../../src/model/errors.ts';
import { SMALL_BODY_BYTES, smallIndexOf } from '../../src/model/formats.ts';
import { createThread, threadFile } from '../../src/thread/thread.ts';
import { eventsOf, type ObservationEvent, type UnreadableItem } from './event.ts';

/** All events of a batch, and the items that are none. */
export type BatchEvents = {
  readonly events: readonly ObservationEvent[];
  readonly unreadable: readonly UnreadableItem[];
};

/** What crosses back from the thread. */
export type EventsRead = {
  readonly events: readonly Omit<ObservationEvent, 'batch'>[];
  readonly unreadable: readonly UnreadableItem[];
};

/** Reads events: small batches at once, large ones in a thread, because they would hold up everybody. */
export type EventReader = {
  /** Rejects with `RetryableError` when the thread is lost. */
  read(batch: SealedBatch): BatchEvents | Promise<BatchEvents>;
  close(): Promise<void>;
};

export function createEventReader(): EventReader {
  const thread = createThread<SealedBatch, EventsRead>(
    threadFile(import.meta.url, 'reading-thread'),
  );

  async function readLarge(batch: SealedBatch): Promise<BatchEvents> {
    const { events, unreadable } = await thread.ask(batch).catch((cause: unknown) => {
      throw new RetryableError('scan_failed', 'The batch was not read.', { cause });
    });
    return { events: events.map((event) => ({ ...event, batch })), unreadable };
  }

  return {
    read: (batch) =>
      smallIndexOf(batch, SMALL_BODY_BYTES) === undefined ? readLarge(batch) : eventsOf(batch),
    close: () => thread.close(),
  };
}
