import type { Server, Socket } from 'node:net';
import { connect, createServer } from 'node:net';
import type { Teardown } from './redis-server.ts';

/**
 * One address in front of a server, as a floating IP, a proxy or a cloud's endpoint is. It can be pointed at
 * another server, and made to behave badly.
 */
export type Relay = {
  readonly port: number;
  /** Where new connections lead. Open ones stay where they are: `drop` ends them. */
  pointAt(port: number): void;
  /** Every answer of the server is kept back for so long; 0 ends it. */
  delay(ms: number): void;
  /** Breaks every connection. */
  drop(): void;
  /** Takes connections, and passes nothing on, of open ones too; no more is ever heard of those. */
  swallow(isSwallowing: boolean): void;
  /** Closes the port and breaks the open connections. */
  refuse(): Promise<void>;
  accept(): Promise<void>;
};

type Pair = {
  readonly client: Socket;
  readonly server: Socket;
  isLost: boolean;
  /** When the last answer that was kept back goes on. */
  due: number;
};

export async function relay(t: Teardown, to: number): Promise<Relay> {
  const pairs = new Set<Pair>();
  let target = to;
  let delayMs = 0;
  let isSwallowing = false;
  let listener: Server | undefined;
  const port = await listen(0);

  function take(client: Socket): void {
    const pair = { client, server: connect(target, '127.0.0.1'), isLost: isSwallowing, due: 0 };
    const { server } = pair;
    pairs.add(pair);
    const end = (): void => {
      pairs.delete(pair);
      client.destroy();
      server.destroy();
    };
    for (const socket of [client, server]) socket.setNoDelay().on('error', end).on('close', end);
    client.on('data', (bytes) => {
      if (!pair.isLost) server.write(bytes);
    });
    server.on('data', (bytes) => {
      const pass = (): void => {
        if (!pair.isLost && !client.destroyed) client.write(bytes);
      };
      const now = performance.now();
      if (delayMs === 0 && pair.due <= now) return pass();
      pair.due = Math.max(pair.due, now + delayMs);
      setTimeout(pass, pair.due - now);
    });
  }

  function listen(wanted: number): Promise<number> {
    return new Promise((resolve, reject) => {
      const made = createServer(take);
      listener = made;
      made.once('error', reject);
      made.listen(wanted, '127.0.0.1', () => {
        const address = made.address();
        resolve(typeof address === 'object' && address !== null ? address.port : 0);
      });
    });
  }

  function drop(): void {
    for (const { client, server } of [...pairs]) {
      client.resetAndDestroy();
      server.destroy();
    }
  }

  async function refuse(): Promise<void> {
    const closing = listener;
    listener = undefined;
    const closed = new Promise((resolve) => closing?.close(resolve));
    drop();
    if (closing !== undefined) await closed;
  }

  t.teardown(refuse);
  return {
    port,
    pointAt(next) {
      target = next;
    },
    delay(ms) {
      delayMs = ms;
    },
    drop,
    swallow(swallows) {
      isSwallowing = swallows;
      if (swallows) for (const pair of pairs) pair.isLost = true;
    },
    refuse,
    async accept() {
      await listen(port);
    },
  };
}
