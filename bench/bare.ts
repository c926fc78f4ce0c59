import { fdatasyncSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs';
import { Agent, createServer, request as forward } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isMainThread, parentPort, Worker } from 'node:worker_threads';
import { gunzipSync } from 'node:zlib';

/**
 * The floor of memory and start: bare `node:http` with a second thread that appends and syncs. It inflates a body, answers
 * after the sync, and forwards the body to the port in its first argument. Prints its port.
 */
if (isMainThread) serve(Number(process.argv[2]));
else appendBodies();

function serve(destination: number): void {
  const writer = new Worker(new URL(import.meta.url), { argv: process.argv.slice(2) });
  const agent = new Agent({ keepAlive: true, maxSockets: 10 });
  const waiting = new Map<number, () => void>();
  let last = 0;
  writer.on('message', (id: number) => {
    waiting.get(id)?.();
    waiting.delete(id);
  });
  const send = (body: Buffer) => {
    const headers = { 'content-type': 'application/x-protobuf', 'content-encoding': 'gzip' };
    const target = { agent, port: destination, path: '/v1/traces', method: 'POST', headers };
    forward(target, (response) => response.resume())
      .on('error', () => {})
      .end(body);
  };
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const body = Buffer.concat(chunks);
      gunzipSync(body);
      const id = ++last;
      waiting.set(id, () => {
        response.writeHead(200, { 'content-type': 'application/x-protobuf' }).end();
        send(body);
      });
      writer.postMessage([id, body]);
    });
  });
  server.keepAliveTimeout = 3_600_000;
  server.listen(0, '127.0.0.1', () => {
    process.stdout.write(`is running. ${(server.address() as AddressInfo).port}\n`);
  });
  process.on('SIGTERM', () => process.exit(0));
}

function appendBodies(): void {
  const directory = mkdtempSync(join(tmpdir(), 'tracectl-bare-'));
  const file = openSync(join(directory, 'log'), 'w');
  // The open file remains until the process ends.
  rmSync(directory, { recursive: true });
  parentPort?.on('message', ([id, body]: [number, Uint8Array]) => {
    writeSync(file, body);
    fdatasyncSync(file);
    parentPort?.postMessage(id);
  });
}
