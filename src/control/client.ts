import { connect } from 'node:net';
import { ControlError, type ControlResponse, MAX_RESPONSE_BYTES } from './protocol.ts';
import { findSocketPath } from './socket-path.ts';

/** No daemon listens for this data directory. */
export class NoDaemonError extends Error {
  override readonly name = 'NoDaemonError';
}

/** Limit for a command. A reload waits for requests in flight. */
const TIMEOUT_MS = 60_000;

/**
 * Sends a command to the daemon of a data directory. Rejects with `NoDaemonError` when no daemon runs, and with
 * `ControlError` when the daemon refuses the command.
 */
export async function callDaemon(
  dataDirectory: string,
  command: string,
  args: Readonly<Record<string, unknown>> = {},
): Promise<unknown> {
  const path = findSocketPath(dataDirectory);
  if (path === undefined) throw new NoDaemonError(`no daemon has run in ${dataDirectory}`);
  const line = await exchange(path, `${JSON.stringify({ command, arguments: args })}\n`);
  const response = JSON.parse(line) as ControlResponse;
  if ('error' in response) throw new ControlError(response.error.code, response.error.message);
  return response.result;
}

function exchange(path: string, request: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(path);
    const chunks: Buffer[] = [];
    let length = 0;
    let isConnected = false;
    const fail = (error: Error) => {
      socket.destroy();
      reject(error);
    };
    socket.setTimeout(TIMEOUT_MS, () =>
      fail(new ControlError('timeout', 'the daemon did not answer in time')),
    );
    socket.once('connect', () => {
      isConnected = true;
      // The daemon takes the end of this side for a client that has gone.
      socket.write(request);
    });
    socket.on('data', (chunk: Buffer) => {
      chunks.push(chunk);
      length += chunk.length;
      if (length > MAX_RESPONSE_BYTES) {
        fail(new ControlError('too_large', 'the answer is too large. Use a smaller --limit'));
      }
    });
    socket.once('error', (error) =>
      fail(isConnected ? error : new NoDaemonError(`no daemon answers on ${path}`)),
    );
    socket.once('close', () => {
      const text = Buffer.concat(chunks).toString('utf8');
      if (text.endsWith('\n')) resolve(text);
      else fail(new ControlError('no_answer', 'the daemon ended before it answered'));
    });
  });
}
