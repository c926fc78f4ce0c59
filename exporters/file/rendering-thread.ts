import { answerRequests, asBuffer } from '../../src/thread/thread.ts';
import { observationLine, otlpLine } from './lines.ts';
import type { RenderTask } from './renderer.ts';

/** The thread of renderer.ts. */
answerRequests<RenderTask, Uint8Array>(async ({ source, observations, format }) => {
  const batch = { ...source, body: asBuffer(source.body) };
  const lines =
    format === 'otlp_json'
      ? [await otlpLine(batch, observations)]
      : (observations ?? []).map((each) => Buffer.from(observationLine(batch, each)));
  const reply = new Uint8Array(Buffer.concat(lines));
  return { reply, transfer: [reply.buffer] };
});
