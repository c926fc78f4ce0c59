import { type ClientHttp2Session, connect } from 'node:http2';
import { EXPORT, framed } from '../test/helper/grpc.ts';

/** As many calls of gRPC under way as `Load` has connections, on a few connections as exporters have them. */
const STREAMS_PER_CONNECTION = 8;

export class GrpcLoad {
  readonly #sessions: readonly ClientHttp2Session[];

  private constructor(sessions: readonly ClientHttp2Session[]) {
    this.#sessions = sessions;
  }

  static async open(port: number, underWay: number): Promise<GrpcLoad> {
    const count = Math.ceil(underWay / STREAMS_PER_CONNECTION);
    return new GrpcLoad(await Promise.all(Array.from({ length: count }, () => dial(port))));
  }

  /** Sends every gzip body as a message once; resolves with the latencies in milliseconds, ascending. */
  async run(bodies: readonly Buffer[], key: string): Promise<number[]> {
    const latencies: number[] = [];
    let next = 0;
    const sender = async (session: ClientHttp2Session): Promise<void> => {
      for (let body = bodies[next++]; body !== undefined; body = bodies[next++]) {
        const started = performance.now();
        await call(session, framed(body, 1), key);
        latencies.push(performance.now() - started);
      }
    };
    const senders = this.#sessions.flatMap((session) =>
      Array.from({ length: STREAMS_PER_CONNECTION }, () => sender(session)),
    );
    await Promise.all(senders);
    return latencies.sort((a, b) => a - b);
  }

  close(): void {
    for (const session of this.#sessions) session.destroy();
  }
}

function dial(port: number): Promise<ClientHttp2Session> {
  return new Promise((resolve, reject) => {
    const session = connect(`http://127.0.0.1:${port}`, () => resolve(session));
    session.on('error', reject);
  });
}

function call(session: ClientHttp2Session, message: Buffer, key: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const stream = session.request({
      ':method': 'POST',
      ':path': EXPORT,
      'content-type': 'application/grpc',
      te: 'trailers',
      'grpc-encoding': 'gzip',
      'x-api-key': key,
    });
    let status: unknown;
    stream.on('response', (headers) => {
      status = headers['grpc-status'];
    });
    stream.on('trailers', (trailers) => {
      status = trailers['grpc-status'];
    });
    stream.on('error', reject);
    stream.on('close', () => {
      if (status === '0') resolve();
      else reject(new Error(`the call ended with ${String(status)}`));
    });
    stream.resume();
    stream.end(message);
  });
}
