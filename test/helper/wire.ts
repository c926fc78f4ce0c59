import type { Socket } from 'node:net';
import { connect } from 'node:net';

/** One answer as it came over a socket. */
type WireAnswer = {
  readonly status: number;
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
};

/** A bare connection, for what no HTTP client would send. */
export type Wire = {
  readonly socket: Socket;
  send(data: string | Buffer): void;
  /** The next answer; rejects when the connection ends before it is whole. */
  answer(): Promise<WireAnswer>;
  /** Resolves when the connection has ended, by either side. */
  ended(): Promise<void>;
  close(): void;
};

/** `url` as a listener says it: `http://127.0.0.1:4318`. `localAddress` is that of the client, if it is a certain one. */
export async function dial(url: string, localAddress?: string): Promise<Wire> {
  const { hostname, port } = new URL(url);
  const socket = connect({
    host: hostname,
    port: Number(port),
    ...(localAddress && { localAddress }),
  });
  let received: Buffer = Buffer.alloc(0);
  let over = false;
  const waiting = new Set<() => void>();
  const wake = (): void => {
    for (const resolve of waiting) resolve();
    waiting.clear();
  };
  socket.on('data', (chunk: Buffer) => {
    received = Buffer.concat([received, chunk]);
    wake();
  });
  socket.on('error', () => {});
  socket.on('close', () => {
    over = true;
    wake();
  });
  const change = (): Promise<void> => new Promise((resolve) => waiting.add(resolve));
  await new Promise<void>((resolve, reject) => {
    socket.once('connect', resolve);
    socket.once('error', reject);
  });
  return {
    socket,
    send: (data) => void socket.write(data),
    async answer() {
      for (;;) {
        const parsed = takeAnswer(received);
        if (parsed !== undefined) {
          received = parsed.rest;
          return parsed.answer;
        }
        if (over) throw new Error(`the connection ended after ${JSON.stringify(String(received))}`);
        await change();
      }
    },
    async ended() {
      while (!over) await change();
    },
    close: () => void socket.destroy(),
  };
}

function takeAnswer(received: Buffer): { answer: WireAnswer; rest: Buffer } | undefined {
  const end = received.indexOf('\r\n\r\n');
  if (end === -1) return undefined;
  const [first = '', ...lines] = received.subarray(0, end).toString('latin1').split('\r\n');
  const status = Number(first.split(' ')[1]);
  const rest = received.subarray(end + 4);
  if (status === 100) {
    return { answer: { status, headers: {}, body: Buffer.alloc(0) }, rest };
  }
  const headers: Record<string, string> = {};
  for (const line of lines) {
    const colon = line.indexOf(':');
    headers[line.slice(0, colon).toLowerCase()] = line.slice(colon + 1).trim();
  }
  const length = Number(headers['content-length'] ?? 0);
  if (rest.length < length) return undefined;
  return {
    answer: { status, headers, body: rest.subarray(0, length) },
    rest: rest.subarray(length),
  };
}
