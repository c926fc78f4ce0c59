import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';

/** The treatment of each request between tracectl and the next collector. */
export type Fault =
  | 'none'
  /** The port is closed. */
  | 'down'
  /** The connection breaks after the request. */
  | 'reset'
  /** No answer. */
  | 'hang'
  /** The request is forwarded, and its answer is lost. */
  | 'lost answer'
  | {
      readonly status: number;
      readonly headers?: Readonly<Record<string, string>>;
      readonly body?: string;
    };

/** A proxy with faults. It forwards requests unchanged. */
export class FaultyHop {
  readonly #target: URL;
  readonly #server = createServer((incoming, answer) => this.#take(incoming, answer));
  readonly #sockets = new Set<Socket>();
  #port = 0;
  #fault: Fault = 'none';
  /** Requests since the fault was set that it affected. */
  met = 0;

  constructor(target: string) {
    this.#target = new URL(target);
    this.#server.on('connection', (socket) => {
      this.#sockets.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => this.#sockets.delete(socket));
    });
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  async listen(): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#server.listen(this.#port, '127.0.0.1', resolve);
    });
    this.#port = (this.#server.address() as AddressInfo).port;
  }

  async set(fault: Fault): Promise<void> {
    const before = this.#fault;
    this.#fault = fault;
    this.met = 0;
    if (before === 'down' && fault !== 'down') await this.listen();
    if (fault === 'down' && before !== 'down') await this.close();
  }

  async close(): Promise<void> {
    if (!this.#server.listening) return;
    const closed = new Promise((resolve) => this.#server.close(resolve));
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  #take(incoming: IncomingMessage, answer: ServerResponse): void {
    const chunks: Buffer[] = [];
    incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
    incoming.on('end', () => {
      const body = Buffer.concat(chunks);
      const fault = this.#fault;
      if (fault === 'none') return this.#pass(incoming, body, answer);
      this.met++;
      if (fault === 'hang') return;
      if (fault === 'lost answer') return this.#pass(incoming, body, undefined);
      if (fault === 'reset' || fault === 'down') {
        incoming.socket.resetAndDestroy();
        return;
      }
      answer.writeHead(fault.status, fault.headers);
      answer.end(fault.body ?? '');
    });
  }

  #pass(incoming: IncomingMessage, body: Buffer, answer: ServerResponse | undefined): void {
    const { host: _, ...headers } = incoming.headers;
    const { hostname, port } = this.#target;
    const outgoing = request(
      { hostname, port, path: incoming.url, method: incoming.method, headers },
      (reply) => {
        if (answer === undefined) {
          reply.resume();
          reply.on('end', () => incoming.socket.resetAndDestroy());
          return;
        }
        answer.writeHead(reply.statusCode ?? 502, reply.headers);
        reply.pipe(answer);
      },
    );
    outgoing.on('error', () => incoming.socket.resetAndDestroy());
    outgoing.end(body);
  }
}
