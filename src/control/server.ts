import { chmodSync, unlinkSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';
import type { Logger } from '../component/component.ts';
import {
  ControlError,
  type ControlRequest,
  type ControlResponse,
  MAX_REQUEST_BYTES,
} from './protocol.ts';
import { chooseSocketPath, forgetSocketPath } from './socket-path.ts';

export type ControlHandler = (request: ControlRequest) => Promise<unknown>;
export type ControlServer = { readonly path: string; close(): Promise<void> };

/** A client that says nothing for this long is gone. */
const IDLE_MS = 30_000;
const MAX_CONNECTIONS = 16;

/**
 * Listens for commands in a data directory. The caller owns the directory; a socket that a killed daemon
 * left behind is replaced. Only this user can connect (mode 0600).
 */
export async function startControlServer(
  dataDirectory: string,
  handle: ControlHandler,
  logger: Logger,
): Promise<ControlServer> {
  const path = chooseSocketPath(dataDirectory);
  const connections = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    connections.add(socket);
    socket.once('close', () => connections.delete(socket));
    serve(socket, handle, logger);
  });
  server.maxConnections = MAX_CONNECTIONS;
  await removeStale(path);
  await listen(server, path);
  server.on('error', (error) => logger.error({ error }, 'The control socket failed.'));
  return {
    path,
    async close() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      for (const socket of connections) socket.destroy();
      await closed;
      forgetSocketPath(dataDirectory);
    },
  };
}

/** A socket nobody answers on belongs to a process that was killed. */
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
    // It was not there: nothing to replace.
  }
}

function listen(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    // The socket is made within this call: nobody else can connect before its mode is set.
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

function serve(socket: Socket, handle: ControlHandler, logger: Logger): void {
  let received = Buffer.alloc(0);
  socket.setTimeout(IDLE_MS, () => socket.destroy());
  socket.on('error', () => socket.destroy());
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
    // A command may take as long as it needs; its client may give up.
    socket.setTimeout(0);
    answer(received.toString('utf8', 0, end), handle).then(
      (response) => respond(socket, response),
      (error: unknown) => {
        logger.error({ error }, 'A control command failed.');
        respond(socket, failure(error));
      },
    );
  };
  socket.on('data', onData);
  socket.once('end', () => {
    if (received.indexOf('\n') === -1) socket.destroy();
  });
}

async function answer(line: string, handle: ControlHandler): Promise<ControlResponse> {
  let request: Partial<ControlRequest>;
  try {
    request = JSON.parse(line) as Partial<ControlRequest>;
  } catch {
    return failure(new ControlError('invalid_request', 'the request is not JSON'));
  }
  if (typeof request?.command !== 'string') {
    return failure(new ControlError('invalid_request', 'the request names no command'));
  }
  try {
    const result = await handle({ command: request.command, arguments: request.arguments ?? {} });
    return { result: result ?? null };
  } catch (error) {
    if (isExpected(error)) return failure(error);
    throw error;
  }
}

/** Errors with a code say what the client asked wrongly; anything else is a fault of ours. */
function isExpected(error: unknown): error is Error & { code: string } {
  const named = ['ControlError', 'StoreError', 'RetryableError', 'PermanentError'];
  return error instanceof Error && named.includes(error.name);
}

function failure(error: unknown): ControlResponse {
  const code = isExpected(error) ? error.code : 'internal';
  return { error: { code, message: error instanceof Error ? error.message : String(error) } };
}

function respond(socket: Socket, response: ControlResponse): void {
  socket.end(`${JSON.stringify(response)}\n`);
}
