import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** The connections of a server, so that a stop waits for answers under way and for nothing else. */
export type Connections = {
  /** Closes those that wait for nothing; each of the others ends with its answer. */
  drain(): void;
  cut(): void;
};

export function trackConnections(server: Server): Connections {
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
      // Its body may never come: the answer that was given is all that was owed.
      if (isDraining && due === 0) socket.destroySoon();
    });
  });
  return {
    drain() {
      isDraining = true;
      for (const [socket, due] of answersDue) if (due === 0) socket.destroy();
    },
    cut() {
      for (const socket of answersDue.keys()) socket.destroy();
    },
  };
}
