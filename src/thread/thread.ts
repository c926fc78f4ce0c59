import { parentPort, type Transferable, Worker } from 'node:worker_threads';
import { scheduleCollection } from './idle-memory.ts';

/**
 * A worker thread that answers requests in their order. It starts with the first request and ends after an idle time,
 * which returns the memory of large bodies to the system.
 */
export type Thread<Request, Reply> = {
  /** `transfer` is moved instead of copied. Rejects with `ThreadLost` if the thread ends early. */
  ask(request: Request, transfer?: readonly Transferable[]): Promise<Reply>;
  /** Ends the thread and rejects pending requests. */
  close(): Promise<void>;
};

/** The thread ended before its answer: the request may be repeated. */
export class ThreadLost extends Error {
  override readonly name = 'ThreadLost';
}

/** Milliseconds without a request after which the thread ends. */
const IDLE_MS = 5000;

type Waiting<Reply> = { resolve(reply: Reply): void; reject(error: unknown): void };
type Asked<Request> = { readonly id: number; readonly request: Request };
type Answered<Reply> =
  | { readonly id: number; readonly reply: Reply }
  | { readonly id: number; readonly fault: string };

export function createThread<Request, Reply>(
  file: URL,
  idleMs: number = IDLE_MS,
): Thread<Request, Reply> {
  let worker: Worker | undefined;
  let lastId = 0;
  let idle: NodeJS.Timeout | undefined;
  const waiting = new Map<number, Waiting<Reply>>();

  function start(): Worker {
    const started = new Worker(file);
    started.on('message', settle);
    started.on('error', (error) => lose(started, error));
    started.on('exit', () => lose(started, undefined));
    return started;
  }

  function settle(answered: Answered<Reply>): void {
    const request = waiting.get(answered.id);
    waiting.delete(answered.id);
    scheduleCollection();
    if (waiting.size === 0) {
      worker?.unref();
      idle = setTimeout(rest, idleMs).unref();
    }
    if ('reply' in answered) request?.resolve(answered.reply);
    else request?.reject(new Error(`the thread failed: ${answered.fault}`));
  }

  function rest(): void {
    const ending = worker;
    worker = undefined;
    void ending?.terminate();
  }

  /** Rejects the requests of a thread that has ended. The next request starts a new thread. */
  function lose(lost: Worker, cause: unknown): void {
    if (worker !== lost) return;
    worker = undefined;
    const requests = [...waiting.values()];
    waiting.clear();
    for (const { reject } of requests) {
      reject(new ThreadLost('the thread ended before it answered', { cause }));
    }
  }

  return {
    ask(request, transfer = []) {
      clearTimeout(idle);
      worker ??= start();
      // Keeps the process alive while a request is pending.
      worker.ref();
      const id = ++lastId;
      const { promise, resolve, reject } = Promise.withResolvers<Reply>();
      waiting.set(id, { resolve, reject });
      worker.postMessage({ id, request } satisfies Asked<Request>, [...transfer]);
      return promise;
    },
    async close() {
      clearTimeout(idle);
      const ending = worker;
      if (ending === undefined) return;
      lose(ending, undefined);
      await ending.terminate();
    },
  };
}

/** The answer to a request, and the memory that moves with it. */
export type Reply<T> = { readonly reply: T; readonly transfer?: readonly Transferable[] };

/** Call once, in the module of the thread. */
export function answerRequests<Request, T>(
  answer: (request: Request) => Reply<T> | Promise<Reply<T>>,
): void {
  parentPort?.on('message', async ({ id, request }: Asked<Request>) => {
    try {
      const { reply, transfer = [] } = await answer(request);
      parentPort?.postMessage({ id, reply } satisfies Answered<T>, [...transfer]);
    } catch (error) {
      const fault = error instanceof Error ? error.message : String(error);
      parentPort?.postMessage({ id, fault } satisfies Answered<T>);
    }
  });
}

/** A module next to the one at `base`, as a source or compiled. */
export function threadFile(base: string, name: string): URL {
  return new URL(`./${name}.${base.endsWith('.ts') ? 'ts' : 'js'}`, base);
}

/** Restores the Buffer of a byte array that crossed between threads. */
export function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
