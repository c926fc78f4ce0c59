import { parentPort } from 'node:worker_threads';
import { Refusal } from '../model/errors.ts';
import { prepare } from './prepare.ts';
import type { ScanReply, ScanRequest } from './scan-messages.ts';
import { asBuffer, memoryOf } from './scan-messages.ts';

/** The thread of src/http/scan-pool.ts: one large body after the other. */
parentPort?.on('message', ({ id, body, wanted }: ScanRequest) => {
  try {
    const prepared = prepare(asBuffer(body), wanted);
    const reply: ScanReply = { id, ...prepared };
    parentPort?.postMessage(reply, memoryOf(prepared));
  } catch (error) {
    parentPort?.postMessage(failure(id, error));
  }
});

function failure(id: number, error: unknown): ScanReply {
  if (error instanceof Refusal) {
    const { code, status, message } = error;
    return { id, refusal: { code, status, message } };
  }
  return { id, fault: error instanceof Error ? error.message : String(error) };
}
