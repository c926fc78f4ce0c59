import { parseArgs } from 'node:util';
import { type Cluster, startCluster } from '../../test/e2e/cluster.ts';
import { treeAt } from '../../test/e2e/shipped.ts';
import { otlp } from '../payloads.ts';
import { Owner } from './owner.ts';
import { type CpuMicros, cpuOf, send } from './together.ts';

/**
 * Measures what a request costs a gateway, a worker, Redis and Postgres together, until its spans are stored: CPU, and
 * the commands of Redis with those inside scripts. See ../README.md.
 *   node bench/gateways/requests.ts [--requests 2000] [--connections 32,1] [--spans 1]
 */
const { values: flags } = parseArgs({
  options: {
    requests: { type: 'string', default: '2000' },
    connections: { type: 'string', default: '32,1' },
    spans: { type: 'string', default: '1' },
  },
});
const REQUESTS = Number(flags.requests);
const WARMING = 1000;
/** Rows of the table of commands. */
const SHOWN = 30;

const print = (text: string): void => void process.stdout.write(`${text}\n`);
const payload = otlp(Number(flags.spans), 560);
const owner = new Owner();
try {
  const cluster = await startCluster(owner, {
    gateways: 1,
    workers: 1,
    gateway(config) {
      // The limits of keys are in force, and admit the load.
      treeAt(config, 'processors', 'quotas').edge = {
        requests_per_second: 100_000,
        burst: 100_000,
        max_in_flight: 10_000,
      };
    },
  });
  await send(cluster, payload, WARMING, 32);
  await cluster.drained();
  for (const connections of flags.connections.split(',').map(Number)) {
    await measure(cluster, connections);
  }
} finally {
  await owner.end();
}

async function measure(cluster: Cluster, connections: number): Promise<void> {
  const { client } = cluster.redis;
  await client.config('RESETSTAT');
  const before = cpuOf(cluster);
  const begun = performance.now();
  const latencies = await send(cluster, payload, REQUESTS, connections);
  const acknowledged = performance.now() - begun;
  await cluster.drained();
  const stored = performance.now() - begun;
  const after = cpuOf(cluster);
  const commands = commandsIn(await client.info('commandstats'));
  const cpu = (kind: keyof CpuMicros) => (after[kind] - before[kind]) / REQUESTS / 1000;
  const kinds = ['gateways', 'worker', 'redis', 'postgres'] as const;
  const all = kinds.reduce((sum, kind) => sum + cpu(kind), 0);
  print(`\n${payload.name}, ${connections} connections, ${REQUESTS} requests`);
  print(
    '| req/s acknowledged | stored | p50 ms | CPU ms a request: all | gateway | worker | Redis | Postgres | commands a request |',
  );
  print('|---|---|---|---|---|---|---|---|---|');
  const cells = [
    ...[((REQUESTS * 1000) / acknowledged).toFixed(0), ((REQUESTS * 1000) / stored).toFixed(0)],
    ...[(latencies[latencies.length >> 1] ?? 0).toFixed(1), `**${all.toFixed(2)}**`],
    ...kinds.map((kind) => cpu(kind).toFixed(2)),
    `**${(sum(commands) / REQUESTS).toFixed(1)}**`,
  ];
  print(`| ${cells.join(' | ')} |\n`);
  const most = [...commands].sort(([, a], [, b]) => b - a).slice(0, SHOWN);
  print(most.map(([name, calls]) => `${name} ${(calls / REQUESTS).toFixed(2)}`).join(', '));
}

/** Calls by command, those inside scripts included. */
function commandsIn(info: string): Map<string, number> {
  const found = info.matchAll(/^cmdstat_([^:]+):calls=(\d+)/gm);
  return new Map([...found].map(([, name = '', calls]) => [name, Number(calls)]));
}

function sum(commands: ReadonlyMap<string, number>): number {
  return [...commands.values()].reduce((total, calls) => total + calls, 0);
}
