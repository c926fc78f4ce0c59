import { Load } from './load.ts';
import { otlp, type Payload, wireRequest } from './payloads.ts';
import { threadMicros } from './process-cost.ts';
import { BODY_HEADERS, bodyOf, SPANS_A_BODY } from './reading/data.ts';
import { startTracectl } from './servers.ts';

/**
 * Prints what each thread of the daemon takes from the socket to the readable row, in microseconds of CPU a span:
 *   node bench/threads.ts [REQUESTS]
 * The first rounds warm up: V8's helper threads compile until the third.
 */
const REQUESTS = Number(process.argv[2] ?? 300);
const ROUNDS = 6;
const CONNECTIONS = 32;

type Kind = Pick<Payload, 'name' | 'path' | 'headers'> & { readonly next: () => Buffer };

const protobuf = otlp(SPANS_A_BODY, 560);
const now = Date.now();
let bodies = 0;

const KINDS: readonly Kind[] = [
  { ...protobuf, name: 'protobuf, one trace of 100 spans a request' },
  {
    name: 'JSON, ten traces of 10 spans a request',
    path: '/api/public/otel/v1/traces',
    headers: BODY_HEADERS,
    next: () => bodyOf(++bodies, 1 - bodies / 1e6, now),
  },
];

for (const kind of KINDS) {
  const server = await startTracectl({});
  const load = await Load.open(server.port, CONNECTIONS);
  process.stdout.write(`${kind.name}\n`);
  for (let round = 0; round < ROUNDS; round++) {
    const requests = Array.from({ length: REQUESTS }, () =>
      wireRequest(kind, kind.next(), server.key),
    );
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
