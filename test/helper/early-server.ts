import { type AddressInfo, createServer, type Socket } from 'node:net';

/** A destination that answers a request at its first bytes. */
export type EarlyServer = {
  readonly url: string;
  /** Reads what follows the first bytes. */
  read(): void;
  /** All bytes that were read. */
  received(): Buffer;
  /** Breaks all connections. */
  end(): void;
};

/** Reads no more than the first bytes of a request until `read` is called. */
export async function startEarlyServer(t: {
  teardown(clean: () => void): void;
}): Promise<EarlyServer> {
  const sockets: Socket[] = [];
  const chunks: Buffer[] = [];
  const server = createServer((socket) => {
    sockets.push(socket);
    socket.on('error', () => {});
    socket.once('data', (first: Buffer) => {
      socket.pause();
      chunks.push(first);
      socket.on('data', (chunk: Buffer) => chunks.push(chunk));
      // A new listener would make the socket flow again.
      socket.pause();
      socket.write('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n');
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const end = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  t.teardown(() => {
    end();
    server.close();
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    read() {
      for (const socket of sockets) socket.resume();
    },
    received: () => Buffer.concat(chunks),
    end,
  };
}
