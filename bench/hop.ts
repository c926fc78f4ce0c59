import { parseArgs } from 'node:util';
import { builtEntry } from './collector/built.ts';
import type { HopKind } from './collector/hops.ts';
import type { HopEffort, HopRow, Scenario } from './collector/scenarios.ts';
import { runScenario } from './collector/scenarios.ts';
import { quantile } from './compare.ts';

/**
 * CPU of a hop that receives, queues on disk and forwards, against a floor that keeps the same promise; README.md describes the rows.
 *   node bench/hop.ts [--quick] [--only REGEX] [--seconds N] [--rounds N] [--entry MAIN]
 * `--entry` measures another tree, e.g. the one before a change.
 */
const { values: flags } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    only: { type: 'string', default: '.' },
    seconds: { type: 'string', default: '10' },
    rounds: { type: 'string', default: '6' },
    entry: { type: 'string' },
  },
});

const KINDS: readonly HopKind[] = ['tracectl', 'floor'];
const TARGET = 1.3;
/** 100 spans of 1.1 KiB. */
const shape = { spans: 100, attributes: 10, attributeBytes: 80, compression: 'gzip' } as const;

const rows: readonly Scenario[] = [
  { name: 'hop at saturation', shape, connections: 32 },
  { name: 'hop at 10,000 spans/s', shape, rate: 10_000, connections: 4 },
  { name: 'hop at 1,000 spans/s', shape, rate: 1000, connections: 4 },
];

const effort: HopEffort = {
  seconds: flags.quick ? 3 : Number(flags.seconds),
  rounds: flags.quick ? 3 : Number(flags.rounds),
  backlog: 0,
};

const programs = { tracectl: flags.entry ?? (await builtEntry()) };
print(
  '| row | CPU µs a span | floor µs | ratio, median [quartiles] | target | spans/s | RSS MiB |',
);
print('|---|---|---|---|---|---|---|');
for (const row of rows.filter(({ name }) => new RegExp(flags.only).test(name))) {
  const [subject, floor] = await runScenario(row, KINDS, programs, effort);
  if (subject !== undefined && floor !== undefined) print(line(subject, floor));
}

function line(subject: HopRow, floor: HopRow): string {
  const ratios = subject.windows.map((cost, i) => cost / (floor.windows[i] ?? cost));
  ratios.sort((a, b) => a - b);
  const [low, median, high] = [0.25, 0.5, 0.75].map((q) => quantile(ratios, q).toFixed(2));
  const cells = [
    subject.scenario,
    subject.cpuPerSpan.median.toFixed(2),
    floor.cpuPerSpan.median.toFixed(2),
    `**${median}** [${low}–${high}]`,
    `≤ ${TARGET}`,
    Math.round(subject.spansPerSecond).toLocaleString('en'),
    `${Math.round(subject.memory / 2 ** 20)} (floor: ${Math.round(floor.memory / 2 ** 20)})`,
  ];
  return `| ${cells.join(' | ')} |`;
}

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}
