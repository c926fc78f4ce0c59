import { answerRequests, asBuffer } from '../../src/thread/thread.ts';
import type { LargeBatch } from './large.ts';
import { renderLine } from './line.ts';

/** The thread of exporters/file/large.ts. */
answerRequests<LargeBatch, Uint8Array>(({ source, observations }) => {
  const batch = { ...source, body: asBuffer(source.body) };
  const parts = observations.map((observation) => Buffer.from(renderLine(batch, observation)));
  const reply = new Uint8Array(Buffer.concat(parts));
  return { reply, transfer: [reply.buffer] };
});
