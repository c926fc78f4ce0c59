import { type Cluster, startCluster } from '../../test/e2e/cluster.ts';
import type { Daemon, Tree } from '../../test/e2e/daemon.ts';
import { quantile } from '../compare.ts';
import { Load } from '../load.ts';
import { type Payload, wireRequest } from '../payloads.ts';
import { treeCpuMicros } from '../process-cost.ts';
import type { Server } from '../servers.ts';
import { Owner } from './owner.ts';

/**
 * A gateway with the shipped configuration and no worker, so that only the path to the acknowledgement is measured. `forgets`:
 * it does not recognize repeated requests.
 */
export async function startGateway({ forgets = false } = {}): Promise<Server> {
  const owner = new Owner();
  const { gateways, key } = await startCluster(owner, {
    gateways: 1,
    workers: 0,
    gateway(config) {
      if (forgets) Object.assign(config.service as Tree, { repeated_requests: { enabled: false } });
    },
  });
  const [gateway] = gateways;
  if (gateway === undefined) throw new Error('there is no gateway');
  return {
    pid: gateway.pid(),
    port: portOf(gateway),
    key,
    idle: async () => {},
    stop: () => owner.end(),
  };
}

/** `stored`: from the first request until the last span has its row. `acknowledged`: until the last answer. */
export type Together = {
  readonly acknowledgedPerSecond: number;
  readonly storedPerSecond: number;
  readonly latency: { readonly p50: number; readonly p99: number };
  /** CPU microseconds per span, summed over all processes of a kind. */
  readonly cpu: CpuMicros;
};

export type CpuMicros = Readonly<Record<'gateways' | 'worker' | 'redis' | 'postgres', number>>;

const CONNECTIONS = 32;
const WARMING = 1000;

/** Gateways, one worker, Redis and Postgres share all cores of one machine. */
export async function runTogether(
  gateways: number,
  payload: Payload,
  requests: number,
): Promise<Together> {
  const owner = new Owner();
  try {
    const cluster = await startCluster(owner, { gateways, workers: 1 });
    // Every gateway gets as many requests: a process costs several times as much right after its start.
    await send(cluster, payload, WARMING * gateways, CONNECTIONS);
    await cluster.drained();
    const before = cpuOf(cluster);
    const begun = performance.now();
    const latencies = await send(cluster, payload, requests, CONNECTIONS);
    const acknowledged = performance.now();
    const accepted = cpuOf(cluster);
    await cluster.drained();
    const stored = performance.now();
    const after = cpuOf(cluster);
    const spans = requests * payload.itemsPerRequest;
    const perSpan = (kind: keyof Together['cpu'], end = after) =>
      (end[kind] - before[kind]) / spans;
    return {
      acknowledgedPerSecond: (spans * 1000) / (acknowledged - begun),
      storedPerSecond: (spans * 1000) / (stored - begun),
      latency: { p50: quantile(latencies, 0.5), p99: quantile(latencies, 0.99) },
      cpu: {
        gateways: perSpan('gateways', accepted),
        worker: perSpan('worker'),
        redis: perSpan('redis'),
        postgres: perSpan('postgres'),
      },
    };
  } finally {
    await owner.end();
  }
}

/** Splits the requests evenly over the gateways. Resolves with all latencies in milliseconds, ascending. */
export async function send(
  cluster: Cluster,
  payload: Payload,
  requests: number,
  connections: number,
): Promise<number[]> {
  const { gateways, key } = cluster;
  const share = Math.ceil(requests / gateways.length);
  const wires = gateways.map(() =>
    Array.from({ length: share }, () => wireRequest(payload, payload.next(), key)),
  );
  const loads = await Promise.all(
    gateways.map((gateway) => Load.open(portOf(gateway), connections / gateways.length)),
  );
  try {
    const latencies = await Promise.all(loads.map((load, i) => load.run(wires[i] ?? [])));
    return latencies.flat().sort((a, b) => a - b);
  } finally {
    for (const load of loads) load.close();
  }
}

export function cpuOf({ gateways, workers, redis, postgres }: Cluster): CpuMicros {
  const sum = (daemons: readonly Daemon[]) =>
    daemons.reduce((cpu, daemon) => cpu + treeCpuMicros(daemon.pid()), 0);
  return {
    gateways: sum(gateways),
    worker: sum(workers),
    redis: treeCpuMicros(redis.pid()),
    postgres: treeCpuMicros(postgres.pid()),
  };
}

function portOf(daemon: Daemon): number {
  return Number(new URL(daemon.base).port);
}
