import { EventEmitter } from 'node:events';
import {
  MessageChannel,
  type MessagePort,
  type Transferable,
  type Worker,
} from 'node:worker_threads';
import type { Hosted } from './thread-host.ts';

/**
 * Database threads that tests close one after the other, in one thread: the start of a thread and of the modules of its operations
 * takes most of the CPU of a test that opens a store. A thread that a test kills, or that fails, ends for real.
 */

/** Each keeps the modules in its memory. */
const KEPT = 4;

const idle: Worker[] = [];

/** Runs `module` in a thread that has no work, or in one that `start` begins. It has the methods of a `Worker` that a database uses. */
export function reusedThread(start: () => Worker, module: string, data: unknown): ReusedThread {
  return new ReusedThread(idle.pop() ?? start(), module, data);
}

class ReusedThread extends EventEmitter {
  readonly #worker: Worker;
  readonly #port: MessagePort;
  #isReleased = false;

  constructor(worker: Worker, module: string, data: unknown) {
    super();
    this.#worker = worker;
    const { port1, port2 } = new MessageChannel();
    this.#port = port1;
    port1.on('message', (message) => this.emit('message', message));
    worker.on('error', this.#failed).on('exit', this.#ended).on('message', this.#release);
    worker.ref();
    worker.postMessage({ module, data, port: port2 } satisfies Hosted, [port2]);
  }

  postMessage(message: unknown, transfer: Transferable[] = []): void {
    this.#port.postMessage(message, transfer);
  }

  async terminate(): Promise<number> {
    return this.#isReleased ? 0 : await this.#worker.terminate();
  }

  readonly #failed = (error: unknown): void => {
    this.emit('error', error);
  };

  readonly #ended = (code: number): void => {
    this.#port.close();
    this.emit('exit', code);
  };

  /** The only message of the host: the module has closed its port. */
  readonly #release = (): void => {
    this.#isReleased = true;
    const worker = this.#worker;
    worker.off('error', this.#failed).off('exit', this.#ended).off('message', this.#release);
    worker.unref();
    if (idle.length < KEPT) idle.push(worker);
    else void worker.terminate();
    this.emit('exit', 0);
  };
}
