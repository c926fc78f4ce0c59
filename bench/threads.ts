import { Load } from './load.ts';
import { otlp } from './payloads.ts';
import { threadMicros } from './process-cost.ts';
import { bodyOf, SPANS_A_BODY } from './reading/data.ts';
import { type Server, startTracectl } from './servers.ts';

/**
 * Prints what each thread of the daemon takes from the socket to the readable row, in microseconds of CPU a span:
 *   node bench/threads.ts [REQUESTS]
 * The first rounds warm up: V8's helper threads compile until the third.
 */
const REQUESTS = Number(process.argv[2] ?? 300);
const ROUNDS = 6;
const CONNECTIONS = 32;

type Kind = { readonly name: string; readonly type: string; readonly next: () => Buffer };

const protobuf = otlp(SPANS_A_BODY, 560);
const now = Date.now();
let bodies = 0;

const KINDS: readonly Kind[] = [
  {
    name: 'protobuf, one trace of 100 spans a request',
    type: 'application/x-protobuf',
    next: () => protobuf.next() as Buffer,
  },
  {
    name: 'JSON, ten traces of 10 spans a request',
    type: 'application/json',
    next: () => bodyOf(++bodies, 1 - bodies / 1e6, now),
  },
];

function request({ key }: Server, { type, next }: Kind): Buffer {
  const body = next();
  const head = [
    'POST /api/public/otel/v1/traces HTTP/1.1',
    ...['host: bench', `authorization: Bearer ${key}`, `content-type: ${type}`],
    ...['content-encoding: gzip', `content-length: ${body.length}`, '', ''],
  ];
  return Buffer.concat([Buffer.from(head.join('\r\n')), body]);
}

for (const kind of KINDS) {
  const server = await startTracectl({});
  const load = await Load.open(server.port, CONNECTIONS);
  process.stdout.write(`${kind.name}\n`);
  for (let round = 0; round < ROUNDS; round++) {
    const requests = Array.from({ length: REQUESTS }, () => request(server, kind));
    const before = threadMicros(server.pid);
    await load.run(requests);
    await server.idle();
    const spans = REQUESTS * SPANS_A_BODY;
    const cells = [...threadMicros(server.pid)].map(([name, micros]) => ({
      name,
      micros: (micros - (before.get(name) ?? 0)) / spans,
    }));
    const all = cells.reduce((sum, cell) => sum + cell.micros, 0);
    const parts = cells
      .filter((cell) => cell.micros >= 0.1)
      .map((cell) => `${cell.name} ${cell.micros.toFixed(1)}`);
    process.stdout.write(`  ${all.toFixed(1)}: ${parts.join(', ')}\n`);
  }
  load.close();
  await server.stop();
}
