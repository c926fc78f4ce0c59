import type { IncomingHttpHeaders } from 'node:http';
import type { Dispatcher } from 'undici';

export type Answer = {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly bytes: Buffer;
  /** The body went on beyond the limit; the connection was closed. */
  readonly isCut: boolean;
};

/**
 * One request and its answer, as undici's dispatcher tells of them: without the streams and signals of its
 * other calls, which would cost more than all else that a request takes.
 */
export class Exchange implements Dispatcher.DispatchHandler {
  readonly answer: Promise<Answer>;
  readonly #limitOf: (status: number) => number;
  readonly #resolve: (answer: Answer) => void;
  readonly #reject: (error: Error) => void;
  #controller: Dispatcher.DispatchController | undefined;
  #isAborted = false;
  #status = 0;
  #headers: IncomingHttpHeaders = {};
  #chunks: Buffer[] = [];
  #length = 0;

  constructor(limitOf: (status: number) => number) {
    const { promise, resolve, reject } = Promise.withResolvers<Answer>();
    this.answer = promise;
    this.#limitOf = limitOf;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  /** Ends it wherever it stands, also while there is no connection yet. */
  abort(): void {
    this.#isAborted = true;
    const error = new Error('the request was given up');
    this.#controller?.abort(error);
    this.#reject(error);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#isAborted) controller.abort(new Error('the request was given up'));
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: IncomingHttpHeaders,
  ): void {
    // An interim answer: the real one follows.
    if (status < 200) return;
    this.#status = status;
    this.#headers = headers;
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#length += chunk.length;
    const limit = this.#limitOf(this.#status);
    if (this.#length <= limit) return;
    this.#settle(limit, true);
    controller.abort(new Error('the answer is too large'));
  }

  onResponseEnd(): void {
    this.#settle(this.#length, false);
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#reject(error);
  }

  #settle(length: number, isCut: boolean): void {
    // Chunks are pieces of larger reads: what is kept is a copy.
    const bytes = length === 0 ? NOTHING : Buffer.concat(this.#chunks, this.#length);
    this.#resolve({
      status: this.#status,
      headers: this.#headers,
      bytes: bytes.subarray(0, length),
      isCut,
    });
  }
}

const NOTHING = Buffer.alloc(0);
