import { createServer, type Socket } from 'node:net';
import { gunzipSync } from 'node:zlib';
import { traceIdsOf } from './spans.ts';

/**
 * The destination, as a process: accepts every request and counts its spans. It uses plain sockets, because it
 * shares the machine with the measured processes. Its parent sends it commands.
 */
export type SinkCommand =
  /** Answers 503 while `refuses` is true. */
  | { readonly type: 'refuse'; readonly refuses: boolean }
  /** Records trace ids in addition to counts. */
  | { readonly type: 'track' }
  | { readonly type: 'report' };

export type SinkReport = {
  readonly port: number;
  readonly spans: number;
  readonly requests: number;
  /** Trace ids in hex with their numbers of spans; empty without `track`. */
  readonly traces: readonly (readonly [string, number])[];
};

const OK = Buffer.from(
  'HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n',
);
const AWAY = Buffer.from(
  'HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n',
);

let refuses = false;
let spans = 0;
let requests = 0;
let traces: Map<string, number> | undefined;

const server = createServer((socket) => {
  socket.setNoDelay(true);
  socket.on('error', () => undefined);
  serve(socket);
});
server.listen(0, '127.0.0.1', () => report());

process.on('message', (command: SinkCommand) => {
  if (command.type === 'refuse') refuses = command.refuses;
  else if (command.type === 'track') traces = new Map();
  else report();
});
process.on('disconnect', () => process.exit());

function report(): void {
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  process.send?.({ port, spans, requests, traces: [...(traces ?? [])] } satisfies SinkReport);
}

function serve(socket: Socket): void {
  let chunks: Buffer[] = [];
  let length = 0;
  /** Bytes of the current request; 0 until its head is complete. */
  let wanted = 0;
  let bodyAt = 0;
  let isGzip = false;
  socket.on('data', (chunk: Buffer) => {
    chunks.push(chunk);
    length += chunk.length;
    for (;;) {
      if (wanted === 0) {
        const all = joined();
        const end = all.indexOf('\r\n\r\n');
        if (end < 0) return;
        const head = all.toString('latin1', 0, end).toLowerCase();
        const size = /\r\ncontent-length: *(\d+)/.exec(head)?.[1];
        if (size === undefined) throw new Error(`a request without a length: ${head}`);
        isGzip = head.includes('\r\ncontent-encoding: gzip');
        bodyAt = end + 4;
        wanted = bodyAt + Number(size);
      }
      if (length < wanted) return;
      const all = joined();
      const body = all.subarray(bodyAt, wanted);
      chunks = length > wanted ? [all.subarray(wanted)] : [];
      length -= wanted;
      wanted = 0;
      socket.write(take(body, isGzip));
      if (length === 0) return;
    }
  });

  function joined(): Buffer {
    const [first] = chunks;
    if (chunks.length === 1 && first !== undefined) return first;
    const all = Buffer.concat(chunks, length);
    chunks = [all];
    return all;
  }
}

function take(body: Buffer, isGzip: boolean): Buffer {
  if (refuses) return AWAY;
  requests++;
  const bytes = isGzip
    ? gunzipSync(body, { chunkSize: Math.max(1024, body.readUInt32LE(body.length - 4) + 1) })
    : body;
  for (const traceId of traceIdsOf(bytes)) {
    spans++;
    if (traces === undefined) continue;
    const id = traceId.toString('hex');
    traces.set(id, (traces.get(id) ?? 0) + 1);
  }
  return OK;
}
