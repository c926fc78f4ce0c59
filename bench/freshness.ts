import { type Flood, flood } from '../test/e2e/attacks/flood.ts';
import { readerOf, victimKey } from '../test/e2e/attacks/victim.ts';
import { prepareDaemon } from '../test/e2e/daemon.ts';

/**
 * Prints how long the event of one project takes until it is readable, alone and beside another project that sends
 * valid bodies without pause.
 *   node bench/freshness.ts [SECONDS]
 */
const ms = Number(process.argv[2] ?? 10) * 1_000;
const MIB = 1024 * 1024;

const floods: Readonly<Record<string, Flood>> = {
  '20 MiB, 1,000 events, 1 connection': { connections: 1, events: 1_000, bytes: 20 * MIB },
  '20 MiB, 1,000 events, 4 connections': { connections: 4, events: 1_000, bytes: 20 * MIB },
  '400 KiB, 1,000 events, 8 connections': { connections: 8, events: 1_000, bytes: 400 * 1024 },
};

const print = (line: string) => process.stdout.write(`${line}\n`);

print('| bodies of the other project | answers to it | readable: p50 / p99 | alone | target |');
print('|---|---|---|---|---|');
for (const [name, attack] of Object.entries(floods)) {
  const daemon = await prepareDaemon();
  try {
    await daemon.start();
    const reader = readerOf(daemon, await victimKey(daemon), 200);
    await reader.watch(2_000);
    const alone = await reader.watch(ms);
    let answers: Readonly<Record<number, number>> = {};
    const beside = await reader.during(async () => {
      answers = await flood(daemon, attack, ms);
    });
    reader.close();
    const [here, there] = [shown(beside.latencies), shown(alone.latencies)];
    print(`| ${name} | ${JSON.stringify(answers)} | ${here} | ${there} | p99 ≤ 500 ms |`);
  } finally {
    await daemon.remove();
  }
}

function shown(latencies: readonly number[]): string {
  const at = (q: number) => latencies[Math.ceil(latencies.length * q) - 1] ?? 0;
  return `${at(0.5).toFixed(0)} / ${at(0.99).toFixed(0)} ms`;
}
