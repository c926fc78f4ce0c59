import { parseArgs } from 'node:util';
import { attackMemory, delayOfOthers } from './attack.ts';
import { type Comparison, compare, type Effort, type Result } from './compare.ts';
import { native, otlp, pooled, runParts, runs } from './payloads.ts';
import { retention } from './retention.ts';
import { addCompression, startAccepting, startFloor, startTracectl } from './servers.ts';

/**
 * Prints the tables of bench/README.md.
 *   node bench/run.ts [--quick] [--only REGEX] [--skip-attack]
 */
const { values: flags } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    only: { type: 'string', default: '.' },
    'skip-attack': { type: 'boolean', default: false },
  },
});

const fresh = otlp(100, 560);
const light = pooled(fresh, 64);
const heavy = pooled(otlp(20, 19_600), 64);
const events = native(100);
const hundred = pooled(events, 64);
const thousand = pooled(native(1000), 64);
const hundredRuns = pooled(runs(100), 64);
const hundredInParts = pooled(runParts(100), 64);

/** Nothing takes the batches out of the queue, so that a window holds the accepting alone. */
const accepting = () => startAccepting();
const redacting = () => startAccepting({ redacts: true });
const compressing = () => startAccepting({ compresses: true });
const forgetting = () => startAccepting({ forgets: true });
const overGrpc = () => startAccepting({ overGrpc: true });
const whole = () => startTracectl({});
const compressingWhole = () => startTracectl({ edit: addCompression });
const senders = 1000;
const small = { projects: 1, keysPerProject: senders, senders };
const large = { projects: 10_000, keysPerProject: 10, senders };

/** Of rows that compare a daemon with itself, where some percent matter. */
const STARTS = 4;

const rows: readonly Comparison[] = [
  {
    name: `control: floor against floor, ${light.name}`,
    subject: { start: () => startFloor('otlp'), payload: light },
    floor: { start: () => startFloor('otlp'), payload: light },
  },
  {
    name: `accept, ${light.name}`,
    target: 1.4,
    subject: { start: accepting, payload: light },
    floor: { start: () => startFloor('otlp'), payload: light },
  },
  {
    name: `accept, ${heavy.name}`,
    target: 1.5,
    subject: { start: accepting, payload: heavy },
    floor: { start: () => startFloor('otlp'), payload: heavy },
  },
  {
    name: `accept over gRPC, ${light.name}`,
    subject: { start: overGrpc, payload: light, overGrpc: true },
    floor: { start: () => startFloor('otlp'), payload: light },
  },
  {
    name: `accept, ${hundred.name}`,
    target: 1.6,
    subject: { start: accepting, payload: hundred },
    floor: { start: () => startFloor('native'), payload: hundred },
  },
  {
    name: 'accept per event, native: 1,000 a request against 100 a request',
    target: 1,
    perItem: true,
    subject: { start: accepting, payload: thousand },
    floor: { start: accepting, payload: hundred },
  },
  {
    name: 'accept per item: run batch against native, 100 a request',
    target: 1.2,
    perItem: true,
    subject: { start: accepting, payload: hundredRuns },
    floor: { start: accepting, payload: hundred },
  },
  {
    name: 'accept: 100 runs in parts against the batch of the same runs',
    target: 1.5,
    subject: { start: accepting, payload: hundredInParts },
    floor: { start: accepting, payload: hundredRuns },
  },
  {
    name: `keys and quotas: accept with against without, ${light.name}`,
    target: 1.05,
    subject: { start: accepting, payload: light },
    floor: { start: () => startAccepting({ isOpen: true }), payload: light },
  },
  {
    name: `repeated requests, control: accept with against with, ${light.name}`,
    starts: STARTS,
    subject: { start: accepting, payload: light },
    floor: { start: accepting, payload: light },
  },
  {
    name: `repeated requests: accept with against without, ${light.name}`,
    target: 1.03,
    starts: STARTS,
    subject: { start: accepting, payload: light },
    floor: { start: forgetting, payload: light },
  },
  {
    name: `repeated requests: accept with against without, ${hundred.name}`,
    target: 1.03,
    starts: STARTS,
    subject: { start: accepting, payload: hundred },
    floor: { start: forgetting, payload: hundred },
  },
  {
    name: `redaction: accept with against without, no match, ${light.name}`,
    target: 1.15,
    subject: { start: redacting, payload: light },
    floor: { start: accepting, payload: light },
  },
  {
    name: `redaction: accept with against without, no match, ${heavy.name}`,
    target: 1.25,
    subject: { start: redacting, payload: heavy },
    floor: { start: accepting, payload: heavy },
  },
  {
    name: `compression: accept with against without, ${hundred.name}`,
    subject: { start: compressing, payload: hundred },
    floor: { start: accepting, payload: hundred },
  },
  {
    name: `compression: socket to readable row with against without, ${events.name}`,
    subject: { start: compressingWhole, payload: events, untilIdle: true },
    floor: { start: whole, payload: events, untilIdle: true },
  },
  {
    name: `10,000 projects with 100,000 keys against 1 with 1,000; 1,000 send, ${light.name}`,
    target: 1,
    subject: { start: () => startAccepting({ population: large }), payload: light },
    floor: { start: () => startAccepting({ population: small }), payload: light },
  },
  {
    name: `socket to readable row, ${light.name}`,
    target: 2,
    perItem: true,
    subject: { start: whole, payload: fresh, untilIdle: true },
    floor: { start: () => startFloor('store'), payload: fresh, untilIdle: true },
  },
  {
    name: `draining: accept and store against accept alone, ${light.name}`,
    subject: { start: whole, payload: fresh, untilIdle: true },
    floor: { start: accepting, payload: light },
  },
];

const effort: Effort = flags.quick
  ? { rounds: 5, requests: 150, connections: 32 }
  : { rounds: 9, requests: 600, connections: 32 };

print(
  '| row | CPU µs | floor µs | ratio, median [quartiles] | target | req/s | p50 / p99 ms | RSS MB |',
);
print('|---|---|---|---|---|---|---|---|');
for (const row of rows.filter((one) => new RegExp(flags.only).test(one.name))) {
  const requests = Math.ceil(effort.requests / (row.subject.payload === thousand ? 5 : 1));
  print(line(await compare(row, { ...effort, requests })));
}
if (new RegExp(flags.only).test('retention')) {
  print('\n| retention | measured | target |\n|---|---|---|');
  await retention(print, flags.quick);
}
if (!flags['skip-attack']) {
  print('\n| attack | measured | target |\n|---|---|---|');
  await attackMemory(print, flags.quick);
  await delayOfOthers(print, flags.quick);
}

function line(result: Result): string {
  const { ratio, latency } = result;
  const cells = [
    result.name,
    result.subject.toFixed(1),
    result.floor.toFixed(1),
    `**${ratio.median.toFixed(2)}** [${ratio.low.toFixed(2)}–${ratio.high.toFixed(2)}]`,
    result.target === undefined ? '–' : `≤ ${result.target}`,
    result.requestsPerSecond.toFixed(0),
    `${latency.p50.toFixed(1)} / ${latency.p99.toFixed(1)}`,
    result.residentMegabytes.toFixed(0),
  ];
  return `| ${cells.join(' | ')} |`;
}

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}
