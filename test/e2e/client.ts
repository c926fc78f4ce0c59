import { Agent, type IncomingHttpHeaders, request } from 'node:http';
import { connect } from 'node:net';

/** The whole answer to one request. */
export type Answer = {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  /** Milliseconds from the first byte sent to the last byte received. */
  readonly ms: number;
};

export type Call = {
  readonly method?: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Buffer | string | undefined;
  readonly agent?: Agent;
  readonly timeoutMs?: number;
};

/** A connection for each request: the service may close an idle one while a request is on its way. */
export const oneRequestEach = new Agent();

/** An agent without a time-out ignores how long a server keeps an idle connection, and may send a request in the moment of its end. */
const sharedAgent = new Agent({ keepAlive: true, maxSockets: 64, timeout: 60_000 });

/** Sends one HTTP request. An answer before the end of the body counts. */
export function send(base: string, call: Call): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const url = new URL(base);
    const started = performance.now();
    let answered = false;
    const outgoing = request(
      {
        host: url.hostname,
        port: url.port,
        method: call.method ?? 'GET',
        path: call.path,
        headers: { ...call.headers },
        agent: call.agent ?? sharedAgent,
      },
      (incoming) => {
        answered = true;
        const chunks: Buffer[] = [];
        incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
        incoming.on('error', reject);
        incoming.on('end', () =>
          resolve({
            status: incoming.statusCode ?? 0,
            headers: incoming.headers,
            body: Buffer.concat(chunks),
            ms: performance.now() - started,
          }),
        );
      },
    );
    outgoing.setTimeout(call.timeoutMs ?? 20_000, () =>
      outgoing.destroy(
        new Error(`no answer to ${call.method ?? 'GET'} ${call.path.slice(0, 200)}`),
      ),
    );
    outgoing.on('error', (error) => {
      if (!answered) reject(error);
    });
    outgoing.end(call.body);
  });
}

/**
 * Writes raw bytes to a socket. Resolves when the server closes, at the time-out, or, with `untilAnswer`, at the
 * end of the response.
 */
export function sendRaw(
  base: string,
  bytes: Buffer,
  timeoutMs: number,
  untilAnswer = false,
): Promise<RawAnswer> {
  return new Promise((resolve) => {
    const url = new URL(base);
    const socket = connect(Number(url.port), url.hostname);
    let text = '';
    const finish = (closed: boolean) => {
      clearTimeout(timer);
      socket.destroy();
      const status = /^HTTP\/1\.[01] (\d{3})/.exec(text)?.[1];
      resolve({ status: status === undefined ? undefined : Number(status), text, closed });
    };
    const timer = setTimeout(() => finish(false), timeoutMs);
    socket.on('connect', () => socket.write(bytes));
    socket.on('data', (chunk: Buffer) => {
      text += chunk.toString('latin1');
      if (untilAnswer && isWholeResponse(text)) finish(false);
    });
    // A reset closes the connection; the bytes before it count.
    socket.on('error', () => undefined);
    socket.on('close', () => finish(true));
  });
}

function isWholeResponse(text: string): boolean {
  const end = text.indexOf('\r\n\r\n');
  const length = /\r\ncontent-length: *(\d+)/i.exec(text.slice(0, end))?.[1];
  return end >= 0 && length !== undefined && text.length >= end + 4 + Number(length);
}

export type RawAnswer = {
  readonly status: number | undefined;
  readonly text: string;
  /** The server closed the connection. */
  readonly closed: boolean;
};

export function json(answer: Answer): unknown {
  return JSON.parse(answer.body.toString('utf8'));
}

/** For assertions on parsed JSON: an object, or a failed test. */
export function record(value: unknown): Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new TypeError(`an object was expected, not ${JSON.stringify(value)?.slice(0, 200)}`);
  }
  return value as Record<string, unknown>;
}

export function list(value: unknown): unknown[] {
  if (!Array.isArray(value)) {
    throw new TypeError(`an array was expected, not ${JSON.stringify(value)?.slice(0, 200)}`);
  }
  return value;
}

/** Repeats a request until `look` accepts the answer. The error has the last answer. */
export async function eventually<T>(
  ask: () => Promise<T>,
  look: (value: T) => boolean,
  what: string,
  timeoutMs = 60_000,
): Promise<T> {
  const end = Date.now() + timeoutMs;
  for (;;) {
    const value = await ask();
    if (look(value)) return value;
    if (Date.now() > end) {
      throw new Error(`${what} did not come within ${timeoutMs} ms; last seen: ${describe(value)}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

function describe(value: unknown): string {
  if (typeof value === 'object' && value !== null && 'body' in value && 'status' in value) {
    return `${String(value.status)} ${String(value.body).slice(0, 500)}`;
  }
  return JSON.stringify(value)?.slice(0, 500) ?? String(value);
}
