import type { SealedBatch } from '../../src/model/batch.ts';
import { RetryableError } from '../../src/model/errors.ts';
import type { Observation } from '../../src/model/observation.ts';
import { asBuffer, createThread, threadFile } from '../../src/thread/thread.ts';

/** What is to be written, and how. */
export type Writing = {
  readonly source: SealedBatch;
  /** Undefined for a raw batch. */
  readonly observations: readonly Observation[] | undefined;
  readonly format: 'json' | 'otlp_json';
};

/** Renders large batches in a thread of its own: their payloads are cut out of megabytes. */
export type LargeRenderer = {
  /** The lines of all observations. Rejects with `RetryableError` when the thread is lost. */
  render(writing: Writing): Promise<Buffer>;
  close(): Promise<void>;
};

export function createLargeRenderer(): LargeRenderer {
  const thread = createThread<Writing, Uint8Array>(threadFile(import.meta.url, 'rendering-thread'));
  return {
    async render(writing) {
      const lines = await thread.ask(writing).catch((cause) => {
        throw new RetryableError('rendering_failed', 'The batch was not rendered.', { cause });
      });
      return asBuffer(lines);
    },
    close: () => thread.close(),
  };
}
