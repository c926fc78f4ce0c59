import { chmodSync, unlinkSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';
import type { Logger } from '../component/component.ts';
import {
  ControlError,
  type ControlRequest,
  type ControlResponse,
  failure,
  MAX_REQUEST_BYTES,
  responseOf,
} from './protocol.ts';
import { chooseSocketPath, forgetSocketPath } from './socket-path.ts';

export type ControlHandler = (request: ControlRequest) => Promise<unknown>;
export type ControlServer = { readonly path: string; close(): Promise<void> };

/** A client that sends nothing for this long is disconnected. */
const IDLE_MS = 30_000;
/** Commands in progress; further ones wait in the order of their arrival. */
const MAX_COMMANDS = 16;
const MAX_WAITING = 240;

/**
 * Listens for commands in a data directory. The caller owns the directory. The server replaces the socket of a
 * killed daemon. Only this user can connect (mode 0600).
 */
export async function startControlServer(
  dataDirectory: string,
  handle: ControlHandler,
  logger: Logger,
): Promise<ControlServer> {
  const path = chooseSocketPath(dataDirectory);
  const places = new Places((socket, read) => serve(socket, read, handle, logger));
  const server = createServer({ allowHalfOpen: true }, (socket) => places.add(socket));
  await removeStale(path);
  await listen(server, path);
  server.on('error', (error) => logger.error({ err: error }, 'Control socket failed'));
  return {
    path,
    async close() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      places.close();
      await closed;
      forgetSocketPath(dataDirectory);
    },
  };
}

/** Serves a connection, of which bytes may have been read. */
type Serve = (socket: Socket, read: Buffer) => void;

/**
 * Serves connections, a bounded number at once. A waiting connection is read, because that shows that its client has gone: the command of such
 * a client never runs. A client keeps its side open until it has the response.
 */
class Places {
  readonly #serve: Serve;
  readonly #connected = new Set<Socket>();
  readonly #served = new Set<Socket>();
  /** Each with a function that stops the reading, and returns what was read. */
  readonly #waiting = new Map<Socket, () => Buffer>();

  constructor(serve: Serve) {
    this.#serve = serve;
  }

  add(socket: Socket): void {
    this.#connected.add(socket);
    socket.on('error', () => socket.destroy());
    socket.once('close', () => {
      this.#connected.delete(socket);
      this.#waiting.delete(socket);
      if (this.#served.delete(socket)) this.#serveNext();
    });
    if (this.#waiting.size >= MAX_WAITING) {
      socket.resume();
      const message = `${MAX_COMMANDS + MAX_WAITING} commands are in progress. Retry`;
      respond(socket, failure(new ControlError('busy', message)));
      return;
    }
    this.#waiting.set(socket, this.#readWaiting(socket));
    this.#serveNext();
  }

  #readWaiting(socket: Socket): () => Buffer {
    let read = Buffer.alloc(0);
    const onData = (chunk: Buffer) => {
      read = Buffer.concat([read, chunk]);
      if (read.length > MAX_REQUEST_BYTES) socket.pause();
    };
    const onEnd = () => {
      this.#waiting.delete(socket);
      const message = 'the client closed its side before its command could run';
      respond(socket, failure(new ControlError('client_gone', message)));
    };
    socket.on('data', onData).once('end', onEnd);
    return () => {
      socket.off('data', onData).off('end', onEnd);
      return read;
    };
  }

  #serveNext(): void {
    for (const [socket, stopReading] of this.#waiting) {
      if (this.#served.size >= MAX_COMMANDS) return;
      this.#waiting.delete(socket);
      this.#served.add(socket);
      this.#serve(socket, stopReading());
    }
  }

  close(): void {
    for (const socket of this.#connected) socket.destroy();
  }
}

/** Removes a socket on which no process answers: its daemon was killed. */
async function removeStale(path: string): Promise<void> {
  const answers = await new Promise<boolean>((resolve) => {
    const probe = connect(path);
    probe.once('connect', () => {
      probe.destroy();
      resolve(true);
    });
    probe.once('error', () => resolve(false));
  });
  if (answers) throw new Error(`another daemon answers on ${path}`);
  try {
    if (process.platform !== 'win32') unlinkSync(path);
  } catch {
    // The socket does not exist.
  }
}

function listen(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    // `listen` creates the socket within this call, so no client can connect before its mode is set.
    const mask = process.umask(0o177);
    try {
      server.listen(path, () => {
        server.off('error', reject);
        if (process.platform !== 'win32') chmodSync(path, 0o600);
        resolve();
      });
    } finally {
      process.umask(mask);
    }
  });
}

function serve(socket: Socket, read: Buffer, handle: ControlHandler, logger: Logger): void {
  let received = Buffer.alloc(0);
  socket.setTimeout(IDLE_MS, () => socket.destroy());
  const onData = (chunk: Buffer) => {
    received = Buffer.concat([received, chunk]);
    const end = received.indexOf('\n');
    if (end === -1 && received.length <= MAX_REQUEST_BYTES) return;
    socket.off('data', onData);
    socket.resume();
    if (end === -1 || end > MAX_REQUEST_BYTES) {
      respond(socket, failure(new ControlError('invalid_request', 'the request is too large')));
      return;
    }
    // A command has no limit here; the client has one.
    socket.setTimeout(0);
    void answer(received.toString('utf8', 0, end), handle, logger).then((response) =>
      respond(socket, response),
    );
  };
  socket.on('data', onData);
  socket.once('end', () => {
    if (received.indexOf('\n') === -1) socket.destroy();
  });
  onData(read);
}

async function answer(
  line: string,
  handle: ControlHandler,
  logger: Logger,
): Promise<ControlResponse> {
  let request: Partial<ControlRequest>;
  try {
    request = JSON.parse(line) as Partial<ControlRequest>;
  } catch {
    return failure(new ControlError('invalid_request', 'the request is not JSON'));
  }
  if (typeof request?.command !== 'string') {
    return failure(new ControlError('invalid_request', 'the request names no command'));
  }
  const { command, arguments: args = {} } = request;
  return responseOf(() => handle({ command, arguments: args }), logger);
}

/** A client that does not close its side in time is disconnected: its place is free for another one. */
function respond(socket: Socket, response: ControlResponse): void {
  socket.setTimeout(IDLE_MS, () => socket.destroy());
  socket.end(`${JSON.stringify(response)}\n`);
}
