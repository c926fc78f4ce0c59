import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** The connections of a server, so that a stop waits only for requests in flight. */
export type AdminConnections = {
  /** Closes idle connections; each of the others closes after its answer. */
  drain(): void;
  cut(): void;
  /** `drain` was called. */
  readonly isDraining: boolean;
};

export function trackConnections(server: Server): AdminConnections {
  const answersDue = new Map<Socket, number>();
  let isDraining = false;
  server.on('connection', (socket: Socket) => {
    answersDue.set(socket, 0);
    socket.once('close', () => answersDue.delete(socket));
  });
  server.on('request', ({ socket }: IncomingMessage, response: ServerResponse) => {
    answersDue.set(socket, (answersDue.get(socket) ?? 0) + 1);
    response.once('close', () => {
      const due = (answersDue.get(socket) ?? 1) - 1;
      if (answersDue.has(socket)) answersDue.set(socket, due);
      // The rest of the body may never arrive, and the request is answered.
      if (isDraining && due === 0) socket.destroySoon();
    });
  });
  return {
    get isDraining() {
      return isDraining;
    },
    drain() {
      isDraining = true;
      for (const [socket, due] of answersDue) if (due === 0) socket.destroy();
    },
    cut() {
      for (const socket of answersDue.keys()) socket.destroy();
    },
  };
}
