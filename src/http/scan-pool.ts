import { Worker } from 'node:worker_threads';
import { Refusal, RetryableError } from '../model/errors.ts';
import { inflatedSizeHint } from '../model/inflate.ts';
import type { Preparation, Prepared } from './prepare.ts';
import { prepare } from './prepare.ts';
import type { ScanReply, ScanRequest } from './scan-messages.ts';
import { preparedOf } from './scan-messages.ts';

/**
 * Where bodies are inflated and scanned: on the event loop while that takes a few milliseconds, else in
 * a worker thread, so that nobody's request holds up the others.
 */
export type Scanner = {
  /**
   * Takes `body` over: a large one's memory moves to the other thread, and comes back in the result.
   * Throws or rejects with the `Refusal` of what is wrong with the body.
   */
  prepare(body: Buffer, wanted: Preparation): Prepared | Promise<Prepared>;
  close(): Promise<void>;
};

/** Inflated bytes up to which the event loop does the work itself. */
const SMALL_BYTES = 1_048_576;

type Waiting = { resolve(prepared: Prepared): void; reject(error: unknown): void };

export function createScanner(): Scanner {
  let worker: Worker | undefined;
  let lastId = 0;
  const waiting = new Map<number, Waiting>();

  function inWorker(body: Buffer, wanted: Preparation): Promise<Prepared> {
    worker ??= startWorker();
    const id = ++lastId;
    const { promise, resolve, reject } = Promise.withResolvers<Prepared>();
    waiting.set(id, { resolve, reject });
    const request: ScanRequest = { id, body, wanted };
    worker.postMessage(request, ownedMemory(body));
    return promise;
  }

  function startWorker(): Worker {
    const started = new Worker(workerFile());
    started.unref();
    started.on('message', settle);
    started.on('error', (error) => fail(started, error));
    started.on('exit', () => fail(started, new Error('the thread ended')));
    return started;
  }

  function settle(reply: ScanReply): void {
    const request = waiting.get(reply.id);
    waiting.delete(reply.id);
    try {
      request?.resolve(preparedOf(reply));
    } catch (error) {
      request?.reject(error);
    }
  }

  /** The next large body starts a new thread; those of the lost one are for their clients to repeat. */
  function fail(lost: Worker, cause: unknown): void {
    if (worker !== lost) return;
    worker = undefined;
    const requests = [...waiting.values()];
    waiting.clear();
    for (const request of requests) {
      request.reject(
        new RetryableError('scan_failed', 'The body could not be read safely. Try again.', {
          cause,
        }),
      );
    }
  }

  return {
    prepare(body, wanted) {
      if (inflatedSizeHint(body, wanted.encoding) > SMALL_BYTES) return inWorker(body, wanted);
      if (wanted.encoding === 'identity') return prepare(body, wanted);
      try {
        return prepare(body, wanted, SMALL_BYTES);
      } catch (error) {
        // The size the sender wrote down was too small: several members, no size at all, or a lie.
        if (error instanceof Refusal && error.code === 'body_too_large')
          return inWorker(body, wanted);
        throw error;
      }
    },
    async close() {
      const ending = worker;
      if (ending === undefined) return;
      fail(ending, new Error('the service stops'));
      await ending.terminate();
    },
  };
}

/** A Buffer out of Node's shared pool cannot be handed over; it is copied. */
function ownedMemory(body: Buffer): ArrayBuffer[] {
  const memory = body.buffer;
  return memory instanceof ArrayBuffer && body.length * 2 > memory.byteLength ? [memory] : [];
}

/** Beside this file: the source as it is run, or what it was compiled to. */
function workerFile(): URL {
  const source = new URL('./scan-worker.ts', import.meta.url);
  return import.meta.url.endsWith('.ts') ? source : new URL('./scan-worker.js', import.meta.url);
}
