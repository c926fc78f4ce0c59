import { setImmediate as nextTurn } from 'node:timers/promises';
import type { SealedBatch } from '../../src/model/batch.ts';
import { RetryableError } from '../../src/model/errors.ts';
import { SMALL_BODY_BYTES, smallIndexOf } from '../../src/model/formats.ts';
import type { Observation } from '../../src/model/observation.ts';
import { asBuffer, createThread, threadFile } from '../../src/thread/thread.ts';
import { observationLine, otlpLine } from './lines.ts';

/** A batch to render. */
export type RenderTask = {
  readonly source: SealedBatch;
  /** Undefined for a raw batch. */
  readonly observations: readonly Observation[] | undefined;
  readonly format: 'json' | 'otlp_json';
};

/** Renders batches as lines: small ones at once, large ones in a thread. */
export type Renderer = {
  /** Rejects with `RetryableError` if the thread is lost. */
  render(task: RenderTask): Promise<Buffer>;
  close(): Promise<void>;
};

/** After this many characters, rendering lets other work run. */
const TURN_CHARACTERS = 1_048_576;

export function createRenderer(): Renderer {
  const thread = createThread<RenderTask, Uint8Array>(
    threadFile(import.meta.url, 'rendering-thread'),
  );
  return {
    async render(task) {
      const { source, observations, format } = task;
      if (smallIndexOf(source, SMALL_BODY_BYTES) === undefined) {
        const lines = await thread.ask(task).catch((cause) => {
          throw new RetryableError('rendering_failed', 'The batch was not rendered.', { cause });
        });
        return asBuffer(lines);
      }
      if (format === 'otlp_json') return otlpLine(source, observations);
      return observationLines(source, observations ?? []);
    },
    close: () => thread.close(),
  };
}

async function observationLines(
  source: SealedBatch,
  observations: readonly Observation[],
): Promise<Buffer> {
  const parts: Buffer[] = [];
  let text = '';
  for (const observation of observations) {
    text += observationLine(source, observation);
    if (text.length < TURN_CHARACTERS) continue;
    parts.push(Buffer.from(text));
    text = '';
    await nextTurn();
  }
  parts.push(Buffer.from(text));
  return parts.length === 1 && parts[0] !== undefined ? parts[0] : Buffer.concat(parts);
}
