import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { prepareDaemon, type Tree } from '../test/e2e/daemon.ts';
import { Load } from './load.ts';
import { median } from './median.ts';
import { otlp, type Payload, pooled, wireRequest } from './payloads.ts';
import { treeCpuMicros, treeMemory } from './process-cost.ts';

/**
 * Measures `service.workers` at full speed: daemons with 1, 2 … processes take turns with the same load.
 *   node bench/workers.ts [--workers 1,2,4] [--rounds 5] [--requests 2000] [--connections 64]
 */
const { values: flags } = parseArgs({
  options: {
    workers: { type: 'string', default: [...new Set([1, 2, availableParallelism()])].join() },
    rounds: { type: 'string', default: '5' },
    requests: { type: 'string', default: '2000' },
    connections: { type: 'string', default: '64' },
  },
});

type Side = {
  readonly workers: number;
  readonly pid: number;
  readonly load: Load;
  stop(): Promise<void>;
};

/** A hop that syncs what it takes to its queue, and whose destination is away for an hour. */
async function start(workers: number, connections: number): Promise<Side> {
  const daemon = await prepareDaemon({
    edit(config) {
      const { extensions, receivers, service } = config as Record<string, Record<string, Tree>>;
      const exporter = {
        endpoint: 'http://127.0.0.1:9',
        retry_on_failure: { initial_interval: '1h', max_interval: '1h' },
        sending_queue: { storage: 'file_storage', queue_size: 10_000_000 },
      };
      const http = { endpoint: receivers?.native?.endpoint };
      Object.assign(config, {
        extensions: { file_storage: {}, health_check: extensions?.health_check },
        receivers: { otlp: { project: 'proj_bench', protocols: { http } } },
        processors: {},
        connectors: {},
        exporters: { otlphttp: exporter },
        service: {
          ...{ workers, telemetry: service?.telemetry },
          extensions: ['file_storage', 'health_check'],
          pipelines: { traces: { receivers: ['otlp'], exporters: ['otlphttp'] } },
        },
      });
    },
  });
  await daemon.start();
  const load = await Load.open(Number(new URL(daemon.base).port), connections);
  return {
    ...{ workers, load, pid: daemon.pid() },
    async stop() {
      load.close();
      await daemon.remove();
    },
  };
}

type Window = { readonly seconds: number; readonly cpu: number; readonly latencies: number[] };

async function runWindow({ load, pid }: Side, payload: Payload, count: number): Promise<Window> {
  const requests = Array.from({ length: count }, () =>
    wireRequest(payload, payload.next(), 'ws_none'),
  );
  const cpu = treeCpuMicros(pid);
  const before = performance.now();
  const latencies = await load.run(requests);
  const seconds = (performance.now() - before) / 1000;
  return { seconds, cpu: treeCpuMicros(pid) - cpu, latencies };
}

const payload = pooled(otlp(100, 560), 64);
const requests = Number(flags.requests);
const sides: Side[] = [];
try {
  for (const workers of flags.workers.split(',')) {
    sides.push(await start(Number(workers), Number(flags.connections)));
  }
  const windows = new Map<Side, Window[]>(sides.map((side) => [side, []]));
  for (const side of sides) await runWindow(side, payload, requests);
  for (let round = 0; round < Number(flags.rounds); round++) {
    const order = round % 2 === 0 ? sides : sides.toReversed();
    for (const side of order) windows.get(side)?.push(await runWindow(side, payload, requests));
  }
  print(`| workers, ${payload.name} | req/s | spans/s | CPU µs/request | p50 / p99 ms | RSS MB |`);
  print('|---|---|---|---|---|---|');
  for (const [side, found] of windows) print(row(side, found));
} finally {
  for (const side of sides) await side.stop();
}

function row({ workers, pid }: Side, windows: readonly Window[]): string {
  const perSecond = median(windows.map(({ seconds }) => requests / seconds));
  const cpu = median(windows.map((window) => window.cpu / requests));
  const latencies = windows.flatMap((window) => window.latencies).sort((a, b) => a - b);
  const at = (share: number) => (latencies[Math.floor(share * latencies.length)] ?? 0).toFixed(1);
  const cells = [
    workers,
    perSecond.toFixed(0),
    (perSecond * payload.itemsPerRequest).toFixed(0),
    cpu.toFixed(0),
    `${at(0.5)} / ${at(0.99)}`,
    (treeMemory(pid) / 1e6).toFixed(0),
  ];
  return `| ${cells.join(' | ')} |`;
}

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}
