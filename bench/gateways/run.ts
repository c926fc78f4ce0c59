import { parseArgs } from 'node:util';
import { compare } from '../compare.ts';
import { otlp, pooled } from '../payloads.ts';
import { startAccepting } from '../servers.ts';
import { jobCost } from './jobs.ts';
import { runTogether, startGateway, type Together } from './together.ts';

/**
 * Measures the cost of gateways and workers. Starts its own Redis and Postgres, both synced to the disk. See
 * ../README.md.
 *   node bench/gateways/run.ts [--quick]
 */
const { values: flags } = parseArgs({ options: { quick: { type: 'boolean', default: false } } });

const fresh = otlp(100, 560);
const print = (text: string): void => void process.stdout.write(`${text}\n`);

await gatewayBesideEmbedded();
await jobs();
await together();

async function gatewayBesideEmbedded(): Promise<void> {
  const payload = pooled(fresh, 64);
  const row = {
    name: 'a gateway against the embedded daemon',
    subject: { start: () => startGateway(), payload },
    floor: { start: () => startAccepting(), payload },
  };
  const effort = flags.quick
    ? { rounds: 5, requests: 150, connections: 32 }
    : { rounds: 9, requests: 600, connections: 32 };
  const { ratio, subject, floor, latency, requestsPerSecond } = await compare(row, effort);
  print(`Accepting, ${payload.name}: CPU of the process a request\n`);
  print('| gateway µs | embedded µs | ratio, median [quartiles] | target | req/s | p50 / p99 ms |');
  print('|---|---|---|---|---|---|');
  const quartiles = `[${ratio.low.toFixed(2)}–${ratio.high.toFixed(2)}]`;
  const cells = [
    ...[subject.toFixed(0), floor.toFixed(0), `**${ratio.median.toFixed(2)}** ${quartiles}`],
    ...['≤ 2', requestsPerSecond.toFixed(0)],
    `${latency.p50.toFixed(1)} / ${latency.p99.toFixed(1)}`,
  ];
  print(`| ${cells.join(' | ')} |`);
}

async function jobs(): Promise<void> {
  const { adding, working } = await jobCost(flags.quick ? 5_000 : 30_000);
  const all = adding.client + adding.redis + working.client + working.redis;
  print('\nBullMQ and Redis: CPU a job that points at a batch\n');
  print('| | BullMQ µs | Redis µs |');
  print('|---|---|---|');
  for (const [name, cost] of Object.entries({ adding, working })) {
    print(`| ${name} | ${cost.client.toFixed(0)} | ${cost.redis.toFixed(0)} |`);
  }
  print(
    `\nTogether **${(all / 100).toFixed(2)} µs a span** at 100 spans a request (target: below 3).`,
  );
}

async function together(): Promise<void> {
  const requests = flags.quick ? 300 : 1500;
  const results = new Map<number, Together>();
  for (const count of [1, 2]) results.set(count, await runTogether(count, fresh, requests));
  print('\nGateways, one worker, Redis and Postgres on this machine, until all is stored\n');
  print(
    '| gateways | spans/s acknowledged | stored | ack p50 / p99 ms | CPU µs/span: gateways | worker | Redis | Postgres |',
  );
  print('|---|---|---|---|---|---|---|---|');
  for (const [count, { acknowledgedPerSecond, storedPerSecond, latency, cpu }] of results) {
    const cells = [
      ...[count, acknowledgedPerSecond.toFixed(0), storedPerSecond.toFixed(0)],
      `${latency.p50.toFixed(0)} / ${latency.p99.toFixed(0)}`,
      ...[cpu.gateways, cpu.worker, cpu.redis, cpu.postgres].map((micros) => micros.toFixed(1)),
    ];
    print(`| ${cells.join(' | ')} |`);
  }
  const [one, two] = [results.get(1)?.cpu.gateways ?? 0, results.get(2)?.cpu.gateways ?? 0];
  print(
    `\nA core each, two gateways accept **${((2 * one) / two).toFixed(2)} times** what one does (target: 1.7),` +
      ' by their CPU a span: here they share cores with everything else.',
  );
}
