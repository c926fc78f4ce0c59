import { GrpcLoad } from './grpc-load.ts';
import { Load } from './load.ts';
import { median } from './median.ts';
import { type Payload, wireRequest } from './payloads.ts';
import { cpuMicros, memory } from './process-cost.ts';
import type { Server } from './servers.ts';

/** One side of a comparison. */
export type Side = {
  readonly start: () => Promise<Server>;
  readonly payload: Payload;
  /** A window ends when the server is idle again, not when the last answer is in. */
  readonly untilIdle?: boolean;
  /** The bodies go as messages of gRPC. */
  readonly overGrpc?: boolean;
};

export type Comparison = {
  readonly name: string;
  /** The ratio that is asked for; undefined for a row that only informs. */
  readonly target?: number;
  readonly subject: Side;
  readonly floor: Side;
  /** Costs are compared per item instead of per request. */
  readonly perItem?: boolean;
  /** How often both servers are started, 1 by default: two processes of one program differ by some percent. */
  readonly starts?: number;
};

export type Result = {
  readonly name: string;
  readonly target: number | undefined;
  /** CPU microseconds per request or item, medians over the windows. */
  readonly subject: number;
  readonly floor: number;
  /** Of the paired ratios: median and quartiles. */
  readonly ratio: { readonly median: number; readonly low: number; readonly high: number };
  readonly requestsPerSecond: number;
  readonly latency: { readonly p50: number; readonly p99: number };
  readonly residentMegabytes: number;
};

export type Effort = {
  readonly rounds: number;
  readonly requests: number;
  readonly connections: number;
};

/**
 * Two fresh servers, warmed alike, take turns: floor then subject, subject then floor. A ratio is made of
 * two neighbouring windows, so that other load of the machine affects both.
 */
export async function compare(row: Comparison, effort: Effort): Promise<Result> {
  const measured: Measured = {
    ...{ ratios: [], subject: [], floor: [], latencies: [] },
    ...{ seconds: 0, residentMegabytes: 0 },
  };
  for (let start = 0; start < (row.starts ?? 1); start++) {
    await measure(row, effort, measured, start % 2 === 0);
  }
  const ratios = measured.ratios.sort((a, b) => a - b);
  const latencies = measured.latencies.sort((a, b) => a - b);
  return {
    name: row.name,
    target: row.target,
    subject: median(measured.subject),
    floor: median(measured.floor),
    ratio: { median: median(ratios), low: quantile(ratios, 0.25), high: quantile(ratios, 0.75) },
    requestsPerSecond: latencies.length / measured.seconds,
    latency: { p50: quantile(latencies, 0.5), p99: quantile(latencies, 0.99) },
    residentMegabytes: measured.residentMegabytes,
  };
}

type Measured = {
  readonly ratios: number[];
  readonly subject: number[];
  readonly floor: number[];
  readonly latencies: number[];
  seconds: number;
  residentMegabytes: number;
};

/** Starts both servers, and adds their windows. */
async function measure(
  row: Comparison,
  effort: Effort,
  measured: Measured,
  isFloorFirst: boolean,
): Promise<void> {
  const sides = isFloorFirst ? [row.floor, row.subject] : [row.subject, row.floor];
  const runners: Runner[] = [];
  try {
    for (const side of sides) runners.push(await Runner.start(side, effort));
    for (const runner of runners) await runner.window(2 * effort.requests);
    for (let round = 0; round < effort.rounds; round++) {
      const inTurn = round % 2 === 0 ? runners : runners.toReversed();
      const windows = new Map<Side, Window>();
      for (const runner of inTurn) windows.set(runner.side, await runner.window(effort.requests));
      const cost = (side: Side) =>
        (windows.get(side)?.cpu ?? 0) / (row.perItem === true ? side.payload.itemsPerRequest : 1);
      const [subject, floor] = [cost(row.subject), cost(row.floor)];
      measured.ratios.push(subject / floor);
      measured.subject.push(subject);
      measured.floor.push(floor);
      measured.latencies.push(...(windows.get(row.subject)?.latencies ?? []));
      measured.seconds += windows.get(row.subject)?.seconds ?? 0;
    }
    const subject = runners.find(({ side }) => side === row.subject);
    measured.residentMegabytes = memory(subject?.pid ?? 0).now / 1e6;
  } finally {
    await Promise.all(runners.map((runner) => runner.stop()));
  }
}

type Window = {
  /** Microseconds a request. */
  readonly cpu: number;
  readonly seconds: number;
  readonly latencies: readonly number[];
};

class Runner {
  readonly #server: Server;
  readonly #connections: number;
  readonly side: Side;

  private constructor(server: Server, side: Side, connections: number) {
    this.#server = server;
    this.side = side;
    this.#connections = connections;
  }

  static async start(side: Side, effort: Effort): Promise<Runner> {
    return new Runner(await side.start(), side, effort.connections);
  }

  get pid(): number {
    return this.#server.pid;
  }

  async window(count: number): Promise<Window> {
    const bodies = Array.from({ length: count }, () => this.side.payload.next());
    const send = await this.#sender(bodies);
    const started = performance.now();
    const before = cpuMicros(this.#server.pid);
    const latencies = await send();
    if (this.side.untilIdle === true) await this.#server.idle();
    const cpu = (cpuMicros(this.#server.pid) - before) / count;
    return { cpu, seconds: (performance.now() - started) / 1000, latencies };
  }

  /**
   * Connections are opened only when the bodies are made: that takes longer than a server waits for a
   * silent client.
   */
  async #sender(bodies: readonly Buffer[]): Promise<() => Promise<number[]>> {
    const { payload, overGrpc } = this.side;
    const { port, grpcPort = 0, key, keys = [] } = this.#server;
    const requests = bodies.map((body, i) =>
      wireRequest(payload, body, keys[i % keys.length] ?? key),
    );
    const load =
      overGrpc === true
        ? await GrpcLoad.open(grpcPort, this.#connections)
        : await Load.open(port, this.#connections);
    return () => {
      const done = load instanceof GrpcLoad ? load.run(bodies, key) : load.run(requests);
      return done.finally(() => load.close());
    };
  }

  async stop(): Promise<void> {
    await this.#server.stop();
  }
}

export function quantile(sorted: readonly number[], q: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] ?? 0;
}

export function p99(values: readonly number[]): number {
  return quantile(
    values.toSorted((a, b) => a - b),
    0.99,
  );
}
