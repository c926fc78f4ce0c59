import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
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
    // What a refused body was inflated into is tens of megabytes that V8, which sees a nearly empty heap,
    // would let pile up.
    collectGarbage();
  }
});

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

function failure(id: number, error: unknown): ScanReply {
  if (error instanceof Refusal) {
    const { code, status, message } = error;
    return { id, refusal: { code, status, message } };
  }
  return { id, fault: error instanceof Error ? error.message : String(error) };
}
