import type { OtlpIndex } from '../src/model/batch-index.ts';
import { STORED_LIMITS, scan } from '../src/model/formats.ts';
import { decodeSpansAt, encodeOtlp } from '../src/model/otlp/encode.ts';
import { encodeOwnSpans, type OwnSpan } from '../src/model/otlp/own-span.ts';
import { median } from './median.ts';

/**
 * Prints what OpenTelemetry's serializers cost for spans that tracectl makes, against the encoder for spans
 * that arrived, in one process and for the same spans.
 *   node bench/encode.ts
 */
const ORIGIN = { service: 'bench', scope: 'bench' };
const WARM_UP = 10;
const RUNS = 60;

function spansOf(count: number, bytes: number, character: string): OwnSpan[] {
  const text = character.repeat(Math.ceil(bytes / Buffer.byteLength(character)));
  return Array.from({ length: count }, (_, i) => ({
    traceId: '0af7651916cd43dd8448eb211c80319c',
    spanId: (i + 1).toString(16).padStart(16, '0'),
    name: 'chat',
    kind: 'client',
    start: { ms: 1_768_478_398_000, ns: 1 },
    end: { ms: 1_768_478_399_000, ns: 2 },
    attributes: {
      'openinference.span.kind': 'LLM',
      'gen_ai.operation.name': 'chat',
      'gen_ai.request.model': 'model-1',
      'session.id': 'session-1',
      'gen_ai.usage.input_tokens': 120,
      'gen_ai.usage.output_tokens': 40,
      'input.value': text,
    },
    events: [],
    status: { code: 1 },
  }));
}

/** The median of the milliseconds that one call takes. */
async function medianOf(work: () => Promise<unknown> | Buffer): Promise<number> {
  for (let i = 0; i < WARM_UP; i++) await work();
  const times: number[] = [];
  for (let i = 0; i < RUNS; i++) {
    const before = performance.now();
    await work();
    times.push(performance.now() - before);
  }
  return median(times);
}

const print = (line: string): void => void process.stdout.write(`${line}\n`);
print('| spans | encoding | OpenTelemetry ms | own encoder ms | ratio |');
print('|---|---|---|---|---|');
for (const [name, spans] of [
  ['100 × 1.2 KB', spansOf(100, 1_200, 'x')],
  ['20 × 20 KB', spansOf(20, 20_000, 'x')],
  ['20 × 20 KB, not ASCII', spansOf(20, 20_000, 'é')],
  ['1 × 10 MB', spansOf(1, 10_000_000, 'x')],
] as const) {
  for (const encoding of ['proto', 'json'] as const) {
    const body = await encodeOwnSpans(ORIGIN, spans, encoding);
    const index = scan(`otlp_${encoding}`, body, STORED_LIMITS) as OtlpIndex;
    const request = decodeSpansAt(index, [...spans.keys()]);
    const theirs = await medianOf(() => encodeOwnSpans(ORIGIN, spans, encoding));
    const ours = await medianOf(() => encodeOtlp(request, encoding));
    const ratio = (theirs / ours).toFixed(1);
    print(`| ${name} | ${encoding} | ${theirs.toFixed(2)} | ${ours.toFixed(2)} | ${ratio} |`);
  }
}
