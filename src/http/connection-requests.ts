import type { Socket } from 'node:net';
import { cutRequests } from '../net/cut-requests.ts';
import type { Lane } from '../net/turns.ts';
import type { Exchange, RenderRefusal } from './exchange.ts';

/** A request in progress, and its route's way to render a refusal. */
export type Pending = {
  readonly exchange: Exchange;
  readonly renderRefusal: RenderRefusal;
  /** It waits until the earlier ones of its connection are answered. */
  readonly isRead: boolean;
};

/** Requests of one connection without a complete answer. A client that pipelines more is cut off. */
export const MAX_PIPELINED = 64;

/**
 * The requests of one connection that are not answered yet. Node parses every request that a chunk of the socket
 * holds, so a client that pipelines would have hundreds in progress:
 *
 *   enter ─▶ begin: it is a read, and an earlier request is not answered? ── no ─▶ handled in a turn of its lane
 *                └─ yes ─▶ waits, and the socket is not read ─ the last one is answered ──────────┘
 */
export class ConnectionRequests {
  readonly #socket: Socket;
  readonly #lane: Lane;
  /** In the order of arrival, each with the call at its end. */
  readonly #pending = new Map<Pending, () => void>();
  readonly #waiting: { readonly pending: Pending; readonly handle: () => void }[] = [];
  #isListening = false;
  #isClosing = false;

  /** The requests begin in turns of this lane. */
  constructor(socket: Socket, lane: Lane) {
    this.#socket = socket;
    this.#lane = lane;
    socket.once('close', () => this.#abandon());
  }

  get size(): number {
    return this.#pending.size;
  }

  /**
   * The client ended its side of the connection. If it waits for the answer to data that it sent, it gets that. Reads end, because such a
   * client is rather gone than half closed, as when a page of the web UI is left.
   */
  endOfClient(): void {
    const pending = [...this.#pending.keys()];
    const last = pending.at(-1);
    if (last === undefined) return;
    last.exchange.response.shouldKeepAlive = false;
    if (pending.every(({ isRead }) => isRead)) this.#socket.end();
  }

  [Symbol.iterator](): IterableIterator<Pending> {
    return this.#pending.keys();
  }

  /** False if the connection is closed, or closes. A connection that has too many requests is cut. */
  hasRoom(): boolean {
    if (this.#pending.size >= MAX_PIPELINED) cutRequests(this.#socket);
    return !this.#socket.destroyed && !this.#isClosing;
  }

  /** The connection ends with the answer to its last request: nothing behind that begins, because nothing would answer it. */
  close(): void {
    this.#isClosing = true;
  }

  /** `onEnd` is called once: the request is answered, or its connection is closed. */
  enter(pending: Pending, onEnd: () => void): void {
    this.#pending.set(pending, onEnd);
    pending.exchange.response.once('close', () => this.#end(pending));
  }

  /** Handles the request in its turn; a read, when every earlier one of the connection is answered. */
  begin(pending: Pending, handle: () => void): void {
    if (!pending.isRead || this.#isFirst(pending)) {
      this.#handleInTurn(handle);
      return;
    }
    this.#waiting.push({ pending, handle });
    this.#hold();
  }

  #handleInTurn(handle: () => void): void {
    this.#lane.take(() => (this.#socket.destroyed ? false : handle()));
  }

  #isFirst(pending: Pending): boolean {
    return this.#pending.keys().next().value === pending;
  }

  #end(pending: Pending): void {
    const onEnd = this.#pending.get(pending);
    this.#pending.delete(pending);
    onEnd?.();
    const [next] = this.#waiting;
    if (next === undefined || !this.#isFirst(next.pending)) return;
    this.#waiting.shift();
    if (this.#waiting.length === 0) this.#socket.resume();
    this.#handleInTurn(next.handle);
  }

  /** Node resumes the socket after each parsed request, so the pause is repeated while a request waits. */
  #hold(): void {
    this.#socket.pause();
    if (this.#isListening) return;
    this.#isListening = true;
    this.#socket.on('resume', () => {
      if (this.#waiting.length > 0) this.#socket.pause();
    });
  }

  /** The answers of a closed connection that were never begun do not close themselves. */
  #abandon(): void {
    this.#waiting.length = 0;
    for (const pending of [...this.#pending.keys()]) this.#end(pending);
  }
}
