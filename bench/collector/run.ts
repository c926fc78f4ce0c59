import { parseArgs } from 'node:util';
import { findToolchain } from '../../test/interop/toolchain.ts';
import { builtEntry } from './built.ts';
import type { HopKind, Programs } from './hops.ts';
import {
  type HopEffort,
  type HopRow,
  runBacklog,
  runKill,
  runScenario,
  SCENARIOS,
} from './scenarios.ts';

/** Compares a durable hop by tracectl and by the OpenTelemetry Collector; README.md describes the method. */
const KINDS: readonly HopKind[] = ['tracectl', 'collector, fsync', 'collector'];

const { values } = parseArgs({
  options: {
    only: { type: 'string' },
    seconds: { type: 'string', default: '10' },
    rounds: { type: 'string', default: '4' },
    backlog: { type: 'string', default: '1000000' },
    kills: { type: 'string', default: '3' },
    quick: { type: 'boolean', default: false },
  },
});

const print = (text: string) => void process.stdout.write(`${text}\n`);
const toolchain = await findToolchain(print);
if ('missing' in toolchain) {
  print(`The Collector is not available: ${toolchain.missing}`);
  process.exitCode = 1;
} else {
  await compareAll({ collector: toolchain.collector, tracectl: await builtEntry() });
}

async function compareAll(programs: Programs): Promise<void> {
  const effort: HopEffort = values.quick
    ? { seconds: 4, rounds: 2, backlog: 100_000 }
    : {
        seconds: Number(values.seconds),
        rounds: Number(values.rounds),
        backlog: Number(values.backlog),
      };
  const wanted = (name: string) => values.only === undefined || name.includes(values.only);
  const header = [
    'scenario',
    'collector',
    'CPU µs/span [lowest-highest]',
    'spans/CPU-s',
    'x',
    'spans/s',
    'RSS MiB',
    'ack p50 / p99 ms',
    'sent',
    'delivered',
  ];
  print(line(header));
  print(line(header.map(() => '---')));
  for (const scenario of SCENARIOS) {
    if (!wanted(scenario.name)) continue;
    show(await runScenario(scenario, KINDS, programs, effort));
  }
  if (wanted('backlog')) {
    const rows: HopRow[] = [];
    for (const kind of KINDS) rows.push(await runBacklog(kind, programs, effort));
    show(rows);
  }
  if (!wanted('kill -9')) return;
  print('');
  print(line(['kill -9 under load', 'kills', 'acknowledged', 'delivered', 'lost', 'repeated']));
  print(line(['---', '---', '---', '---', '---', '---']));
  for (const kind of KINDS) {
    const result = await runKill(kind, programs, Number(values.kills));
    const { kills, acknowledged, delivered, lost, repeated } = result;
    print(line([kind, ...[kills, acknowledged, delivered, lost, repeated].map(String)]));
  }
}

/** Prints the rows of one scenario, tracectl first; `x` is the CPU of a row as a multiple of tracectl's. */
function show(rows: readonly HopRow[]): void {
  const ours = rows[0]?.cpuPerSpan.median ?? 0;
  for (const row of rows) {
    const { median, low, high } = row.cpuPerSpan;
    print(
      line([
        row.scenario,
        row.kind,
        `${median.toFixed(2)} [${low.toFixed(2)}-${high.toFixed(2)}]`,
        Math.round(1e6 / median).toLocaleString('en'),
        row === rows[0] ? '' : (median / ours).toFixed(1),
        Math.round(row.spansPerSecond).toLocaleString('en'),
        (row.memory / 2 ** 20).toFixed(0),
        `${row.p50.toFixed(1)} / ${row.p99.toFixed(1)}`,
        row.sent.toLocaleString('en'),
        row.delivered.toLocaleString('en') + (row.note === undefined ? '' : `, ${row.note}`),
      ]),
    );
  }
}

function line(cells: readonly string[]): string {
  return `| ${cells.join(' | ')} |`;
}
