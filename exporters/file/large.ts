import type { ObservationBatch, RawBatch } from '../../src/model/batch.ts';
import { RetryableError } from '../../src/model/errors.ts';
import type { Observation } from '../../src/model/observation.ts';
import { asBuffer, createThread, threadFile } from '../../src/thread/thread.ts';

export type LargeBatch = {
  readonly source: RawBatch;
  readonly observations: readonly Observation[];
};

/** Renders large batches in a thread of its own: their payloads are cut out of megabytes. */
export type LargeRenderer = {
  /** The lines of all observations. Rejects with `RetryableError` when the thread is lost. */
  render(batch: ObservationBatch): Promise<Buffer>;
  close(): Promise<void>;
};

export function createLargeRenderer(): LargeRenderer {
  const thread = createThread<LargeBatch, Uint8Array>(
    threadFile(import.meta.url, 'rendering-thread'),
  );
  return {
    async render({ source, observations }) {
      const { idempotency: _, ...crossing } = source;
      const request = { source: { ...crossing, index: undefined }, observations };
      const lines = await thread.ask(request).catch((cause) => {
        throw new RetryableError('rendering_failed', 'The batch was not rendered.', { cause });
      });
      return asBuffer(lines);
    },
    close: () => thread.close(),
  };
}
