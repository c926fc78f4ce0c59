import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { makeToken } from '../../../src/tenancy/token.ts';
import { send } from '../client.ts';
import type { Daemon } from '../daemon.ts';
import { hoardedStreams } from './hoarded-streams.ts';

/** The addresses that an attack is aimed at, and the key of the project that it uses. */
export type Attacked = Pick<Daemon, 'base' | 'health' | 'metricsBase' | 'adminBase' | 'key'> & {
  /** Address of the gRPC receiver. */
  readonly grpc: string;
};

/** Begins an attack; the function ends it. */
export type Attack = (attacked: Attacked) => Promise<() => void>;

const MIB = 1_048_576;
export const LISTING = '/api/v1/traces?limit=50';
/** Silent connections to a port. */
const SILENT = 400;

export function headOf({ key }: Pick<Attacked, 'key'>, framing: string): string {
  return (
    'POST /api/v1/observations/batch HTTP/1.1\r\nhost: attack\r\ncontent-type: application/json\r\n' +
    `authorization: Bearer ${key}\r\n${framing}\r\n\r\n`
  );
}

/** Connections that send some bytes and then nothing; the function closes them. */
async function opened(base: string, count: number, bytes: Buffer): Promise<() => void> {
  const { hostname, port } = new URL(base);
  const sockets: Socket[] = [];
  for (let i = 0; i < count; i += 100) {
    const some = Array.from({ length: Math.min(100, count - i) }, () => {
      const socket = connect(Number(port), hostname).on('error', () => {});
      socket.resume();
      return socket;
    });
    sockets.push(...some);
    await Promise.all(some.map((socket) => once(socket, 'connect').catch(() => {})));
    for (const socket of some) socket.write(bytes);
  }
  return () => {
    for (const socket of sockets) socket.destroy();
  };
}

const declared = (count: number, more = '', sent = 0): Attack => {
  return (attacked) => {
    const head = headOf(attacked, `content-length: ${24 * MIB}${more}`);
    return opened(attacked.base, count, Buffer.from(head + ' '.repeat(sent)));
  };
};

/** Requests that hold memory, connections or streams. */
export const HOLDING: Readonly<Record<string, Attack>> = {
  '2 sockets declare 24 MiB and send nothing': declared(2),
  '2 sockets declare 24 MiB and wait for 100 Continue': declared(2, '\r\nexpect: 100-continue'),
  '200 sockets declare 24 MiB and send nothing': declared(200),
  '12 sockets send 20 MiB of 24 MiB and then nothing': declared(12, '', 20 * MIB),
  '1,540 chunked requests of one byte': (attacked) =>
    opened(
      attacked.base,
      1540,
      Buffer.from(`${headOf(attacked, 'transfer-encoding: chunked')}1\r\n{\r\n`),
    ),
  '200 gRPC connections with 5 bytes on 100 streams each': ({ key, grpc }) =>
    opened(grpc, 200, hoardedStreams(key, 100)),
};

/** Connections that send nothing. */
export function silence(base: string): Socket[] {
  const { hostname, port } = new URL(base);
  return Array.from({ length: SILENT }, () =>
    connect(Number(port), hostname).on('error', () => {}),
  );
}

/** Keeps the pipeline of a connection full of listings, and opens another one when it is cut. */
export function pipeliner(
  { base, key }: Pick<Attacked, 'base' | 'key'>,
  reads: boolean,
): { close(): void; answered(): number } {
  const { hostname, port } = new URL(base);
  const request = `GET ${LISTING} HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer ${key}\r\n\r\n`;
  const block = request.repeat(600);
  let isOver = false;
  let answered = 0;
  let socket: Socket;
  const open = (): void => {
    socket = connect(Number(port), hostname);
    socket.on('error', () => undefined);
    if (reads)
      socket.on('data', (chunk) => (answered += String(chunk).split('HTTP/1.1 200').length - 1));
    else socket.pause();
    const fill = (): void => {
      while (socket.write(block));
    };
    socket.on('drain', fill);
    socket.once('connect', fill);
    socket.once('close', () => {
      if (!isOver) setTimeout(open, 5);
    });
  };
  open();
  return {
    answered: () => answered,
    close() {
      isOver = true;
      socket.destroy();
    },
  };
}

/** A valid body of 1,000 events, 20 MiB by default. */
export function largeBody(words = 4_190): Buffer {
  const inputs = 'word '.repeat(words);
  const events = Array.from({ length: 1_000 }, (_, i) =>
    JSON.stringify({
      ...{ id: `e${i}`, trace_id: 'large', operation: 'finish', kind: 'llm', status: 'ok' },
      inputs,
    }),
  );
  return Buffer.from(`{"events":[${events.join(',')}]}`);
}

/** Several clients that each repeat a call at once, until the end. */
function repeated(clients: number, call: () => Promise<unknown>): () => void {
  let isOver = false;
  const client = async (): Promise<void> => {
    while (!isOver) await call().catch(() => sleep(100));
  };
  void Promise.all(Array.from({ length: clients }, client));
  return () => {
    isOver = true;
  };
}

/** A body that arrives in chunks of one byte, one each 20 ms. */
const oneByteChunks: Attack = async (attacked) => {
  const { hostname, port } = new URL(attacked.base);
  const sockets = Array.from({ length: 50 }, () => {
    const socket = connect(Number(port), hostname).on('error', () => {});
    socket.resume();
    socket.write(headOf(attacked, 'transfer-encoding: chunked'));
    return socket;
  });
  const drip = setInterval(() => {
    for (const socket of sockets) if (socket.writable) socket.write('1\r\n \r\n');
  }, 20);
  return () => {
    clearInterval(drip);
    for (const socket of sockets) socket.destroy();
  };
};

/** Attacks that last, for a random mix of them. */
export const LASTING: Readonly<Record<string, Attack>> = {
  ...HOLDING,
  '50 bodies in chunks of one byte': oneByteChunks,
  '400 silent connections to each of the health, metrics and admin ports': async (attacked) => {
    const { health, metricsBase, adminBase } = attacked;
    const sockets = [health, metricsBase, adminBase].flatMap(silence);
    return () => {
      for (const socket of sockets) socket.destroy();
    };
  },
  '10 clients with wrong keys': async ({ base }) =>
    repeated(10, () =>
      send(base, { path: LISTING, headers: { authorization: `Bearer ${makeToken()}` } }),
    ),
  '5 clients that pipeline listings and read the answers': async (attacked) => {
    const clients = Array.from({ length: 5 }, () => pipeliner(attacked, true));
    return () => {
      for (const client of clients) client.close();
    };
  },
  '5 clients that pipeline listings and read no answer': async (attacked) => {
    const clients = Array.from({ length: 5 }, () => pipeliner(attacked, false));
    return () => {
      for (const client of clients) client.close();
    };
  },
  '3 clients with valid bodies of 4 MiB': async ({ base, key }) => {
    const body = largeBody(838);
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    let left = 6;
    return repeated(3, async () => {
      if (--left < 0) return sleep(100);
      return send(base, { method: 'POST', path: '/api/v1/observations/batch', headers, body });
    });
  },
};
