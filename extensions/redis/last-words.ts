import { connect } from 'node:net';

export type Address = { readonly host: string; readonly port: number };

/** A server that refuses a connection says so at once. Milliseconds. */
const PATIENCE_MS = 500;
/** Longer answers are cut. */
const MOST_BYTES = 200;

/**
 * The reason that a server gives before it closes a connection, such as its `maxclients`. A client that has sent a
 * command reads only that the connection was reset, so this one sends none. Undefined if the server says nothing.
 */
export function lastWordsOf({ host, port }: Address): Promise<string | undefined> {
  return new Promise((resolve) => {
    let said = '';
    const socket = connect(port, host);
    socket.setTimeout(PATIENCE_MS, () => socket.destroy());
    socket.setEncoding('utf8');
    socket.on('error', () => {});
    socket.on('data', (chunk: string) => {
      said += chunk;
      if (said.includes('\n') || said.length > MOST_BYTES) socket.destroy();
    });
    socket.on('close', () => resolve(reasonIn(said)));
  });
}

/** From an error reply: `-ERR max number of clients reached`. */
function reasonIn(said: string): string | undefined {
  const reply = /^-([^\r\n]+)/.exec(said)?.[1]?.slice(0, MOST_BYTES);
  if (reply === undefined) return undefined;
  if (/max number of clients/.test(reply)) {
    return 'Redis accepts no further connection: it is at its maxclients';
  }
  if (reply.startsWith('DENIED')) {
    return 'Redis is in protected mode: set a password, or protected-mode to no';
  }
  return `Redis closes the connection: ${reply}`;
}
