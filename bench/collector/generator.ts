import { connect, type Socket } from 'node:net';

/** Sent requests and their answers. */
export type Answers = {
  readonly acknowledged: number;
  /** Requests with another status than 200. */
  readonly refused: number;
  /** Requests without an answer. */
  readonly broken: number;
  /** Milliseconds from a request's first byte to its acknowledgement, ascending. */
  readonly latencies: readonly number[];
};

export type RequestLoad = {
  /** The next request as bytes; undefined after the last one. */
  readonly next: () => { readonly bytes: Buffer; readonly acknowledged?: () => void } | undefined;
  readonly connections: number;
  /** Requests a second over all connections; undefined sends each request after the previous answer. */
  readonly rate?: number;
};

/**
 * Sends over keep-alive connections of plain sockets. A request that is due while every connection waits for an
 * answer is sent when the next connection is free, so that none is skipped.
 */
export async function sendLoad(port: number, load: RequestLoad): Promise<Answers> {
  const latencies: number[] = [];
  let refused = 0;
  let broken = 0;
  const started = performance.now();
  let taken = 0;
  const client = async (): Promise<void> => {
    const connection = await Connection.open(port);
    try {
      for (;;) {
        if (load.rate !== undefined) {
          const due = started + (taken++ * 1000) / load.rate;
          const wait = due - performance.now();
          if (wait > 1) await new Promise((resolve) => setTimeout(resolve, wait));
        }
        const request = load.next();
        if (request === undefined) return;
        const before = performance.now();
        const status = await connection.exchange(request.bytes);
        if (status === 200) {
          latencies.push(performance.now() - before);
          request.acknowledged?.();
        } else {
          refused++;
        }
      }
    } catch {
      broken++;
    } finally {
      connection.close();
    }
  };
  await Promise.all(Array.from({ length: load.connections }, client));
  latencies.sort((a, b) => a - b);
  return { acknowledged: latencies.length, refused, broken, latencies };
}

class Connection {
  readonly #socket: Socket;
  #answer: Buffer = Buffer.alloc(0);
  #waiting: PromiseWithResolvers<number> | undefined;

  constructor(socket: Socket) {
    this.#socket = socket;
    socket.on('data', (chunk: Buffer) => {
      this.#answer = this.#answer.length === 0 ? chunk : Buffer.concat([this.#answer, chunk]);
      const status = statusOf(this.#answer);
      if (status === undefined) return;
      this.#answer = Buffer.alloc(0);
      this.#waiting?.resolve(status);
    });
    const ended = () => this.#waiting?.reject(new Error('the connection ended'));
    socket.on('error', ended);
    socket.on('close', ended);
  }

  static open(port: number): Promise<Connection> {
    return new Promise((resolve, reject) => {
      const socket = connect(port, '127.0.0.1');
      socket.setNoDelay(true);
      socket.once('error', reject);
      socket.once('connect', () => resolve(new Connection(socket)));
    });
  }

  exchange(bytes: Buffer): Promise<number> {
    this.#waiting = Promise.withResolvers();
    if (this.#socket.destroyed) this.#waiting.reject(new Error('the connection ended'));
    else this.#socket.write(bytes);
    return this.#waiting.promise;
  }

  close(): void {
    this.#socket.destroy();
  }
}

/** The status of a complete answer; undefined until it is complete. */
function statusOf(answer: Buffer): number | undefined {
  const end = answer.indexOf('\r\n\r\n');
  if (end < 0) return undefined;
  const head = answer.toString('latin1', 0, end).toLowerCase();
  const length = Number(/\r\ncontent-length: *(\d+)/.exec(head)?.[1] ?? 0);
  return answer.length >= end + 4 + length ? Number(head.slice(9, 12)) : undefined;
}
