import type { Format, SealedBatch } from '../src/model/batch.ts';
import { observe } from '../src/model/formats.ts';
import { withinLimits } from '../src/model/narrow-limits.ts';
import { convertLogs } from '../src/model/otlp/log-request.ts';
import { rawBatch } from '../test/helper/batches.ts';
import {
  attributesOf,
  decodeLogs,
  decodeRequest,
  encodeLogs,
  encodeRequest,
  logsOf,
  requestOf,
  spanOf,
} from '../test/helper/otlp-proto.ts';
import { CONVENTIONS, claudeRecords, nativeEvents, runs } from './conventions.ts';
import { median } from './median.ts';

/**
 * Prints what the normalization of a request of 100 spans costs, by convention, in microseconds of CPU a span: the scan of the
 * stored body and the observations of its items. The floor decodes the same bytes to objects, with protobufjs or JSON.parse, and
 * maps nothing.
 *   node bench/normalization.ts
 */
const SPANS = 100;
const TARGET = 15;
const WARM_UP = 300;
const ROUNDS = 25;
const REQUESTS = 20;

type Case = {
  readonly format: Format;
  readonly body: Buffer;
  readonly decode: () => unknown;
  /** The body has log records, which become spans first. */
  readonly isLogs?: boolean;
};

function otlpCases(attributes: Readonly<Record<string, unknown>>): readonly Case[] {
  // All but the first span have a parent, as in a trace.
  const spans = Array.from({ length: SPANS }, (_, i) =>
    spanOf(i, {
      attributes: attributesOf(attributes),
      ...(i === 0 ? {} : { parentSpanId: 'ab'.repeat(8) }),
    }),
  );
  const request = requestOf(spans, { scope: { name: 'bench' } });
  const proto = encodeRequest(request);
  return [
    { format: 'otlp_proto', body: proto, decode: () => decodeRequest(proto) },
    jsonCase('otlp_json', request),
  ];
}

/** The conversion of log records to spans is a part of their cost. */
function logCases(): readonly Case[] {
  const request = logsOf(claudeRecords(SPANS), { scope: { name: 'bench' } });
  const proto = encodeLogs(request);
  return [
    { format: 'otlp_proto', body: proto, decode: () => decodeLogs(proto), isLogs: true },
    { ...jsonCase('otlp_json', request), isLogs: true },
  ];
}

function jsonCase(format: Format, request: object): Case {
  const body = Buffer.from(JSON.stringify(request));
  return { format, body, decode: () => JSON.parse(body.toString('utf8')) };
}

/** The index of a batch is kept for the batch, so each request has one of its own. */
function normalized({ format, body, isLogs }: Case): void {
  const type = format === 'otlp_json' ? format : 'otlp_proto';
  const batch: SealedBatch =
    isLogs === true
      ? rawBatch('otlp_proto', convertLogs(type, body, { maxItems: SPANS }).body, SPANS)
      : rawBatch(format, body, SPANS);
  for (const observation of observe(batch)) withinLimits(observation);
}

/** The median of the CPU microseconds that one span takes. */
function costOf(work: () => unknown): number {
  for (let i = 0; i < WARM_UP; i++) work();
  const costs = Array.from({ length: ROUNDS }, () => {
    const before = process.cpuUsage();
    for (let i = 0; i < REQUESTS; i++) work();
    const { user, system } = process.cpuUsage(before);
    return (user + system) / REQUESTS / SPANS;
  });
  return median(costs);
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

const cases = [
  ...Object.entries(CONVENTIONS).flatMap(([name, attributes]) =>
    otlpCases(attributes).map((one) => [name, one] as const),
  ),
  ...logCases().map((one) => ['Claude Code over OTLP logs', one] as const),
  ['native events', jsonCase('native', nativeEvents(SPANS))] as const,
  ['LangSmith runs', jsonCase('runs', runs(SPANS))] as const,
];
print(`| convention | format | bytes a span | floor µs | µs a span (≤ ${TARGET}) | |`);
print('|---|---|---|---|---|---|');
let isMet = true;
for (const [name, one] of cases) {
  const floor = costOf(one.decode);
  const cost = costOf(() => normalized(one));
  // The target is for the conventions of spans, events and runs.
  if (one.isLogs !== true) isMet &&= cost <= TARGET;
  const size = Math.round(one.body.length / SPANS);
  const verdict = one.isLogs === true ? 'no target' : cost <= TARGET ? 'met' : 'missed';
  print(
    `| ${name} | ${one.format} | ${size} | ${floor.toFixed(1)} | ${cost.toFixed(1)} | ${verdict} |`,
  );
}
process.exitCode = isMet ? 0 : 1;
