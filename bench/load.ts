import { connect, type Socket } from 'node:net';

/**
 * Keep-alive connections that send ready-made requests, each as soon as the answer before it is in.
 * Bare sockets, because the generator shares the machine with what it measures.
 */
export class Load {
  readonly #sockets: readonly Socket[];

  private constructor(sockets: readonly Socket[]) {
    this.#sockets = sockets;
  }

  static async open(port: number, connections: number): Promise<Load> {
    return new Load(await Promise.all(Array.from({ length: connections }, () => dial(port))));
  }

  /** Sends every request once; resolves with the latencies in milliseconds, ascending. */
  run(requests: readonly Buffer[]): Promise<number[]> {
    return new Promise((resolve, reject) => {
      const latencies: number[] = [];
      let next = 0;
      for (const socket of this.#sockets) {
        let started = 0;
        let answer: Buffer = Buffer.alloc(0);
        const sendNext = () => {
          const request = requests[next];
          if (request === undefined) return;
          next += 1;
          started = performance.now();
          socket.write(request);
        };
        socket.removeAllListeners('data');
        socket.removeAllListeners('close');
        socket.on('close', () => reject(new Error('the server closed a connection under load')));
        socket.on('data', (chunk: Buffer) => {
          answer = answer.length === 0 ? chunk : Buffer.concat([answer, chunk]);
          if (!isWhole(answer)) return;
          if (answer.toString('latin1', 9, 10) !== '2') {
            reject(new Error(answer.toString('latin1', 0, 500)));
            return;
          }
          answer = Buffer.alloc(0);
          latencies.push(performance.now() - started);
          if (latencies.length === requests.length) resolve(latencies.sort((a, b) => a - b));
          else sendNext();
        });
        sendNext();
      }
    });
  }

  close(): void {
    for (const socket of this.#sockets) {
      socket.removeAllListeners('close');
      socket.destroy();
    }
  }
}

function dial(port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => resolve(socket));
    socket.setNoDelay(true);
    socket.on('error', reject);
  });
}

function isWhole(answer: Buffer): boolean {
  const end = answer.indexOf('\r\n\r\n');
  if (end < 0) return false;
  const head = answer.toString('latin1', 0, end).toLowerCase();
  const length = /\r\ncontent-length: *(\d+)/.exec(head)?.[1];
  if (length !== undefined) return answer.length >= end + 4 + Number(length);
  if (head.includes('transfer-encoding: chunked')) {
    return answer.subarray(-5).equals(Buffer.from('0\r\n\r\n'));
  }
  return true;
}
