import { randomBytes } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { oneRequestEach, send } from '../test/e2e/client.ts';
import { encodeTraces, type WireSpan } from '../test/e2e/otlp-messages.ts';
import { quantile } from './compare.ts';
import { attributes, prose } from './payloads.ts';
import { cpuMicros } from './process-cost.ts';
import { type Server, startTracectl } from './servers.ts';

/**
 * Prints the CPU of the daemon for reading requests about one trace: median, and the highest one.
 *   node bench/one-trace.ts [ROUNDS]
 */
const rounds = Number(process.argv[2] ?? 15);
const LARGE = 10_000;
/** Traces in a batch of the second table, each with one span in each batch. */
const TRACES = 512;
const BATCHES = 10;

const print = (line: string) => process.stdout.write(`${line}\n`);
const large = randomBytes(16).toString('hex');
const shared = Array.from({ length: TRACES }, () => randomBytes(16).toString('hex'));

const server = await startTracectl({});
try {
  const ids = Array.from({ length: LARGE }, () => randomBytes(8).toString('hex'));
  for (let at = 0; at < LARGE; at += 1000) {
    const spans = ids
      .slice(at, at + 1000)
      .map((id, i) => callSpan(large, id, parentOf(ids, at + i)));
    await ingest(server, spans);
  }
  for (let batch = 0; batch < BATCHES; batch++) {
    await ingest(
      server,
      shared.map((traceId) => callSpan(traceId, randomBytes(8).toString('hex'), undefined)),
    );
  }
  await server.idle();
  // Threads without work end: their time would be missing.
  await pause(15_000);
  print('| request | CPU ms: median, highest | target |');
  print('|---|---|---|');
  await row(`tree of ${LARGE} observations`, () => `${large}?fields=tree`, '≤ 150');
  await row('10 spans in 10 batches of 512', (i) => of(i), '–');
  await row(
    'the same with payloads, another trace each time',
    (i) => `${of(i)}?payloads=true`,
    '–',
  );
  await row('the same with payloads, one trace', () => `${of(0)}?payloads=true`, '–');
} finally {
  await server.stop();
}

function of(i: number): string {
  return shared[(i * 37 + 5) % TRACES] ?? '';
}

async function row(name: string, path: (i: number) => string, target: string): Promise<void> {
  const costs: number[] = [];
  for (let i = -3; i < rounds; i++) {
    const before = cpuMicros(server.pid);
    await read(path(i + 3));
    if (i >= 0) costs.push((cpuMicros(server.pid) - before) / 1000);
  }
  costs.sort((a, b) => a - b);
  print(
    `| ${name} | ${quantile(costs, 0.5).toFixed(1)}, ${quantile(costs, 1).toFixed(1)} | ${target} |`,
  );
}

async function read(target: string): Promise<void> {
  const { status, body } = await call(`/api/v1/traces/${target}`);
  if (status !== 200) throw new Error(`${target}: ${status} ${body.toString()}`);
}

function call(path: string) {
  const headers = { authorization: `Bearer ${server.key}` };
  return send(`http://127.0.0.1:${server.port}`, { path, headers, agent: oneRequestEach });
}

async function ingest({ port, key }: Server, spans: WireSpan[]): Promise<void> {
  const body = gzipSync(
    encodeTraces({ resourceSpans: [{ scopeSpans: [{ scope: { name: 'bench' }, spans }] }] }),
  );
  const { status } = await send(`http://127.0.0.1:${port}`, {
    method: 'POST',
    path: '/api/public/otel/v1/traces',
    headers: {
      authorization: `Bearer ${key}`,
      'content-type': 'application/x-protobuf',
      'content-encoding': 'gzip',
    },
    body,
  });
  if (status !== 200) throw new Error(`the spans were answered with ${status}`);
}

/** Ten children for each parent; the first observation is the root. */
function parentOf(ids: readonly string[], at: number): string | undefined {
  return at === 0 ? undefined : ids[Math.floor((at - 1) / 10)];
}

function callSpan(traceId: string, spanId: string, parent: string | undefined): WireSpan {
  const start = 1_763_672_400_000_000_000n;
  return {
    traceId,
    spanId,
    ...(parent === undefined ? {} : { parentSpanId: parent }),
    name: 'chat step',
    startTimeUnixNano: String(start + BigInt(Math.floor(Math.random() * 1e9))),
    endTimeUnixNano: String(start + 2_000_000_000n),
    attributes: attributes({
      'openinference.span.kind': 'LLM',
      'llm.model_name': 'gpt-4o-mini',
      'llm.provider': 'openai',
      'input.value': prose(560),
      'output.value': prose(200),
      'llm.token_count.prompt': 123,
      'llm.token_count.completion': 45,
    }),
    status: { code: 1 },
  };
}
