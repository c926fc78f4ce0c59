import { answerRequests, asBuffer } from '../../src/thread/thread.ts';
import type { Writing } from './large.ts';
import { renderLine } from './line.ts';
import { renderOtlpLine } from './otlp-line.ts';

/** The thread of exporters/file/large.ts. */
answerRequests<Writing, Uint8Array>(async ({ source, observations, format }) => {
  const batch = { ...source, body: asBuffer(source.body) };
  const lines =
    format === 'otlp_json'
      ? [await renderOtlpLine(batch, observations)]
      : (observations ?? []).map((each) => Buffer.from(renderLine(batch, each)));
  const reply = new Uint8Array(Buffer.concat(lines));
  return { reply, transfer: [reply.buffer] };
});
