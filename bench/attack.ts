import { spawn } from 'node:child_process';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { otlp } from './payloads.ts';
import { memory } from './process-cost.ts';
import { type Server, startTracectl } from './servers.ts';

const MIB = 1024 * 1024;
const BODY = 25 * MIB;
const PROBER = fileURLToPath(new URL('./prober.ts', import.meta.url));

type Print = (text: string) => void;

/** The most memory a fresh daemon ever held, per attack. */
export async function attackMemory(print: Print, quick: boolean): Promise<void> {
  const connections = quick ? 60 : 200;
  const idle = quick ? 1000 : 5000;
  const attacks: readonly [string, (server: Server) => Promise<void>][] = [
    [
      `${connections} connections, each 25 MiB of JSON, length declared`,
      (s) => bodies(s, connections, false),
    ],
    [
      `${connections} connections, each 25 MiB of JSON, chunked`,
      (s) => bodies(s, connections, true),
    ],
    [`${connections} gzip bombs of 1 GiB (OTLP)`, (s) => bombs(s, connections)],
    ['20 valid bodies of 20 MiB, 4 at once', (s) => validBodies(s, 20)],
    [`${idle} idle connections`, (s) => idleConnections(s, idle)],
  ];
  for (const [name, attack] of attacks) {
    const server = await startTracectl({});
    try {
      await attack(server);
      const { peak } = memory(server.pid);
      print(`| peak RSS: ${name} | ${(peak / MIB).toFixed(0)} MiB | < 512 MiB |`);
    } finally {
      await server.stop();
    }
  }
}

/** How long others wait while requests of 25 MiB are worked on. */
export async function delayOfOthers(print: Print, quick: boolean): Promise<void> {
  const rounds = quick ? 3 : 10;
  const server = await startTracectl({});
  try {
    const calm = await probeDuring(server, () => new Promise((r) => setTimeout(r, 2000)));
    print(`| a small request beside nothing, p99 / max | ${shown(calm)} | – |`);
    const large: readonly [string, Buffer][] = [
      ['native JSON, 1,000 events of 25 KiB', request(server, nativeBody(), jsonHead)],
      [
        'OTLP protobuf gzip, 1,000 spans, 25 MiB inflated',
        request(server, otlp(1000, 25_000).next(), gzipHead),
      ],
    ];
    for (const [name, bytes] of large) {
      const delays = await probeDuring(server, async () => {
        for (let i = 0; i < rounds; i++) await exchange(server.port, bytes);
      });
      const added = delays.max - calm.p50;
      print(
        `| a small request beside 25 MiB (${name}), p99 / max | ${shown(delays)}, delay ${added.toFixed(0)} ms | ≤ 100 ms |`,
      );
    }
  } finally {
    await server.stop();
  }
}

type Delays = { readonly p50: number; readonly p99: number; readonly max: number };

/** A prober in a process of its own, so that sending the large bodies does not delay its clock. */
async function probeDuring(server: Server, work: () => Promise<void>): Promise<Delays> {
  const child = spawn(process.execPath, [PROBER, String(server.port), server.key], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  let output = '';
  child.stdout.setEncoding('utf8');
  const ready = new Promise<void>((resolve) => child.stdout.once('data', () => resolve()));
  await ready;
  child.stdout.on('data', (text: string) => {
    output += text;
  });
  const closed = new Promise<void>((resolve) => child.once('close', () => resolve()));
  await work();
  child.stdin.end();
  await closed;
  return JSON.parse(output) as Delays;
}

function shown(delays: Delays): string {
  return `${delays.p99.toFixed(1)} / ${delays.max.toFixed(1)} ms`;
}

/** A valid body of exactly 25 MiB, most of it spaces, in pieces of 64 KiB as a slow client sends them. */
async function bodies(server: Server, count: number, chunked: boolean): Promise<void> {
  const filling = Buffer.alloc(64 * 1024, ' ');
  const start = Buffer.from(`{"events":[${event('a')}]`.padEnd(filling.length, ' '));
  const framed = (piece: Buffer) =>
    chunked ? Buffer.concat([Buffer.from('10000\r\n'), piece, Buffer.from('\r\n')]) : piece;
  const framing = chunked ? 'transfer-encoding: chunked' : `content-length: ${BODY}`;
  const head = Buffer.from(`${jsonHead(server)}${framing}\r\n\r\n`);
  const [first, middle] = [framed(start), framed(filling)];
  const last = framed(Buffer.from('}'.padEnd(filling.length, ' ')));
  await Promise.all(
    Array.from({ length: count }, async () => {
      const socket = await dial(server.port);
      if (socket === undefined) return;
      let done = false;
      const answered = firstAnswer(socket).then(() => {
        done = true;
      });
      socket.write(head);
      socket.write(first);
      for (let sent = 2; sent < BODY / filling.length && !done; sent++) {
        if (!socket.write(middle)) await drained(socket);
      }
      if (!done) {
        socket.write(last);
        if (chunked) socket.write('0\r\n\r\n');
      }
      await answered;
      socket.destroy();
    }),
  );
}

/** Valid bodies from clients that repeat a request after a refusal, until the store has all of them. */
async function validBodies(server: Server, count: number): Promise<void> {
  const bytes = request(server, nativeBody(4000), jsonHead);
  let left = count;
  const client = async (): Promise<void> => {
    while (left > 0) {
      left--;
      while ((await exchange(server.port, bytes)) !== 202) await sleep(1000);
    }
  };
  await Promise.all(Array.from({ length: 4 }, client));
  await server.idle();
}

async function bombs(server: Server, count: number): Promise<void> {
  const bomb = gzipSync(Buffer.alloc(1024 * MIB), { level: 9 });
  const bytes = request(server, bomb, gzipHead);
  await Promise.all(Array.from({ length: count }, () => exchange(server.port, bytes)));
}

async function idleConnections(server: Server, count: number): Promise<void> {
  const sockets: Socket[] = [];
  for (let i = 0; i < count; i += 200) {
    const some = await Promise.all(Array.from({ length: 200 }, () => dial(server.port)));
    for (const socket of some) {
      if (socket === undefined) continue;
      socket.write('POST /api/v1/observations/batch HTTP/1.1\r\nhost: localhost\r\n');
      sockets.push(socket);
    }
  }
  await exchange(server.port, request(server, Buffer.from(`{"events":[${event('i')}]}`), jsonHead));
  for (const socket of sockets) socket.destroy();
}

/** Sends one request on a connection of its own. Resolves with the status; 0: the connection ended without one. */
async function exchange(port: number, bytes: Buffer): Promise<number> {
  const socket = await dial(port);
  if (socket === undefined) return 0;
  const answered = firstAnswer(socket);
  socket.write(bytes);
  const status = await answered;
  socket.destroy();
  return status;
}

function dial(port: number): Promise<Socket | undefined> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => resolve(socket));
    socket.on('error', () => resolve(undefined));
  });
}

/** Resolves with the status of the answer; 0: the connection ended without one. */
function firstAnswer(socket: Socket): Promise<number> {
  return new Promise((resolve) => {
    socket.once('data', (bytes) => resolve(Number(bytes.toString('latin1', 9, 12))));
    socket.once('close', () => resolve(0));
    socket.setTimeout(120_000, () => socket.destroy());
  });
}

function drained(socket: Socket): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      socket.removeListener('drain', done);
      socket.removeListener('close', done);
      resolve();
    };
    socket.once('drain', done);
    socket.once('close', done);
  });
}

function request(server: Server, body: Buffer, head: (server: Server) => string): Buffer {
  return Buffer.concat([
    Buffer.from(`${head(server)}content-length: ${body.length}\r\n\r\n`),
    body,
  ]);
}

function jsonHead(server: Server): string {
  return (
    'POST /api/v1/observations/batch HTTP/1.1\r\nhost: localhost\r\n' +
    `authorization: Bearer ${server.key}\r\ncontent-type: application/json\r\n`
  );
}

function gzipHead(server: Server): string {
  return (
    'POST /api/public/otel/v1/traces HTTP/1.1\r\nhost: localhost\r\n' +
    `authorization: Bearer ${server.key}\r\n` +
    'content-type: application/x-protobuf\r\ncontent-encoding: gzip\r\n'
  );
}

function event(id: string, inputs = ''): string {
  return `{"id":"${id}","trace_id":"attack","operation":"finish","kind":"llm","status":"ok","inputs":"${inputs}"}`;
}

function nativeBody(words = 5200): Buffer {
  const text = 'word '.repeat(words);
  const all = Array.from({ length: 1000 }, (_, i) => event(`e${i}`, text));
  return Buffer.from(`{"events":[${all.join(',')}]}`);
}
