import { quantile } from '../compare.ts';
import { unlike } from '../payloads.ts';
import { type Body, bodyMaker, httpRequest, type RequestShape } from './bodies.ts';
import { ComparedHop, pause } from './compared-hop.ts';
import type { Answers } from './generator.ts';
import type { HopKind, Programs } from './hops.ts';

export type Scenario = {
  readonly name: string;
  readonly shape: RequestShape;
  /** Spans a second; undefined is no limit. */
  readonly rate?: number;
  readonly connections: number;
};

export type HopEffort = {
  readonly seconds: number;
  readonly rounds: number;
  /** Spans of the backlog. */
  readonly backlog: number;
};

/** The measurements of one collector in one scenario. */
export type HopRow = {
  readonly scenario: string;
  readonly kind: HopKind;
  /** CPU microseconds to accept and deliver a span, over all windows. */
  readonly cpuPerSpan: { readonly median: number; readonly low: number; readonly high: number };
  /** The same of each window, in their order. */
  readonly windows: readonly number[];
  readonly spansPerSecond: number;
  readonly memory: number;
  readonly p50: number;
  readonly p99: number;
  readonly sent: number;
  readonly delivered: number;
  readonly note?: string;
};

const BATCH = 100;
const SMALL: RequestShape = {
  spans: BATCH,
  attributes: 10,
  attributeBytes: 40,
  compression: 'none',
};
const GZIP: RequestShape = { ...SMALL, compression: 'gzip' };
const LARGE: RequestShape = {
  spans: BATCH,
  attributes: 20,
  attributeBytes: 5000,
  compression: 'gzip',
};

/** The names are those of the Collector's testbed, whose generator also sends 100 spans a request. */
export const SCENARIOS: readonly Scenario[] = [
  { name: '10,000 spans/s', shape: SMALL, rate: 10_000, connections: 4 },
  { name: '10,000 spans/s, gzip', shape: GZIP, rate: 10_000, connections: 4 },
  { name: '1,000 spans/s, 20 x 5,000 bytes, gzip', shape: LARGE, rate: 1000, connections: 4 },
  // About the most that the Collector accepts on two cores: the same load for all, also to compare memory.
  { name: '30,000 spans/s, gzip', shape: GZIP, rate: 30_000, connections: 8 },
  { name: 'saturation, gzip', shape: GZIP, connections: 32 },
];

const POOL = 64;
const POOL_LARGE = 8;
/** Long enough at full speed for V8 to compile the hot code, as it would after an hour at low speed. */
const WARM_SECONDS = 4;

type Requests = () => Buffer;

/**
 * Requests that are no repetitions of each other. A few gzip bodies come in turn, each time in other bytes, because compressing
 * one costs more than accepting it.
 */
function pool({ shape }: Scenario): Requests {
  const make = bodyMaker(shape);
  if (shape.compression === 'none') return () => httpRequest(make().bytes, 'none');
  const size = shape.attributeBytes > 1000 ? POOL_LARGE : POOL;
  const bodies = Array.from({ length: size }, () => make().bytes);
  let next = 0;
  return () => httpRequest(unlike(bodies[next++ % size] ?? Buffer.alloc(0), next), 'gzip');
}

/** Measures all kinds in turn, window by window, so that other load of the machine affects all of them. */
export async function runScenario(
  scenario: Scenario,
  kinds: readonly HopKind[],
  programs: Programs,
  effort: HopEffort,
): Promise<HopRow[]> {
  const requests = pool(scenario);
  const runners: Runner[] = [];
  try {
    for (const kind of kinds) {
      const side = await ComparedHop.start(kind, programs, scenario.shape.compression);
      runners.push(new Runner(scenario, side, requests));
    }
    for (const runner of runners) await runner.warmUp();
    for (let round = 0; round < effort.rounds; round++) {
      const order = round % 2 === 0 ? runners : runners.toReversed();
      for (const runner of order) await runner.window(effort.seconds);
    }
    return runners.map((runner) => runner.row());
  } finally {
    await Promise.all(runners.map((runner) => runner.side.stop()));
  }
}

class Runner {
  readonly side: ComparedHop;
  readonly #scenario: Scenario;
  readonly #requests: Requests;
  readonly #perSpan: number[] = [];
  readonly #latencies: number[] = [];
  #sent = 0;
  #delivered = 0;
  #sending = 0;
  #memory = 0;

  constructor(scenario: Scenario, side: ComparedHop, requests: Requests) {
    this.side = side;
    this.#scenario = scenario;
    this.#requests = requests;
  }

  async warmUp(): Promise<void> {
    const { shape } = this.#scenario;
    const before = (await this.side.report()).spans;
    const end = performance.now() + WARM_SECONDS * 1000;
    const answers = await this.side.send({
      connections: 8,
      next: () => (performance.now() < end ? { bytes: this.#requests() } : undefined),
    });
    await this.side.delivered(before + answers.acknowledged * shape.spans);
  }

  /** Measures from the first request to the last delivery. */
  async window(seconds: number): Promise<void> {
    const { shape, rate, connections } = this.#scenario;
    const before = (await this.side.report()).spans;
    let answers: Answers | undefined;
    let sendingSeconds = 0;
    const cost = await this.side.cost(async () => {
      const started = performance.now();
      const end = started + seconds * 1000;
      answers = await this.side.send({
        connections,
        ...(rate === undefined ? {} : { rate: rate / shape.spans }),
        next: () => (performance.now() < end ? { bytes: this.#requests() } : undefined),
      });
      sendingSeconds = (performance.now() - started) / 1000;
      await this.side.delivered(before + answers.acknowledged * shape.spans);
    });
    if (answers === undefined) return;
    const spans = answers.acknowledged * shape.spans;
    this.#perSpan.push(cost.cpuMicros / spans);
    for (const latency of answers.latencies) this.#latencies.push(latency);
    this.#sent += spans;
    this.#delivered += cost.delivered;
    this.#sending += sendingSeconds;
    this.#memory = Math.max(this.#memory, cost.memory);
  }

  row(): HopRow {
    this.#latencies.sort((a, b) => a - b);
    return {
      scenario: this.#scenario.name,
      kind: this.side.kind,
      cpuPerSpan: spread(this.#perSpan),
      windows: this.#perSpan,
      spansPerSecond: this.#sent / this.#sending,
      memory: this.#memory,
      p50: quantile(this.#latencies, 0.5),
      p99: quantile(this.#latencies, 0.99),
      sent: this.#sent,
      delivered: this.#delivered,
    };
  }
}

function spread(values: readonly number[]): HopRow['cpuPerSpan'] {
  const sorted = values.toSorted((a, b) => a - b);
  return {
    median: quantile(sorted, 0.5),
    low: sorted[0] ?? 0,
    high: sorted.at(-1) ?? 0,
  };
}

/** Accepts the whole backlog while the destination refuses it, then drains it. */
export async function runBacklog(
  kind: HopKind,
  programs: Programs,
  effort: HopEffort,
): Promise<HopRow> {
  const scenario: Scenario = {
    name: `a backlog of ${effort.backlog} spans`,
    shape: GZIP,
    connections: 8,
  };
  const requests = pool(scenario);
  const side = await ComparedHop.start(kind, programs, 'gzip');
  try {
    side.tell({ type: 'refuse', refuses: true });
    let left = Math.ceil(effort.backlog / BATCH);
    let answers: Answers | undefined;
    let draining = 0;
    const cost = await side.cost(async () => {
      answers = await side.send({
        connections: scenario.connections,
        next: () => (left-- > 0 ? { bytes: requests() } : undefined),
      });
      side.tell({ type: 'refuse', refuses: false });
      const started = performance.now();
      await side.delivered(answers.acknowledged * BATCH);
      draining = (performance.now() - started) / 1000;
    });
    const spans = (answers?.acknowledged ?? 0) * BATCH;
    const latencies = answers?.latencies ?? [];
    return {
      scenario: scenario.name,
      kind,
      cpuPerSpan: spread([cost.cpuMicros / spans]),
      windows: [cost.cpuMicros / spans],
      spansPerSecond: spans / cost.seconds,
      memory: cost.memory,
      p50: quantile(latencies, 0.5),
      p99: quantile(latencies, 0.99),
      sent: spans,
      delivered: cost.delivered,
      note: `drained in ${draining.toFixed(1)} s`,
    };
  } finally {
    await side.stop();
  }
}

export type KillResult = {
  readonly kind: HopKind;
  readonly kills: number;
  /** Acknowledged spans. */
  readonly acknowledged: number;
  readonly delivered: number;
  readonly lost: number;
  /** Spans that were delivered more than once. */
  readonly repeated: number;
};

/** Kills the collector with -9 under load several times, and counts the acknowledged spans that arrive. */
export async function runKill(
  kind: HopKind,
  programs: Programs,
  kills: number,
): Promise<KillResult> {
  const make = bodyMaker(GZIP);
  const side = await ComparedHop.start(kind, programs, 'gzip');
  const acknowledged = new Set<string>();
  try {
    side.tell({ type: 'track' });
    for (let kill = 0; kill < kills; kill++) {
      let isOver = false;
      const sending = side.send({
        connections: 8,
        next: () => {
          if (isOver) return undefined;
          const { bytes, traceId }: Body = make();
          return {
            bytes: httpRequest(bytes, 'gzip'),
            acknowledged: () => void acknowledged.add(traceId),
          };
        },
      });
      await pause(1000 + Math.random() * 500);
      await side.hop.end('SIGKILL');
      isOver = true;
      await sending;
      await side.hop.start();
    }
    const { traces } = await side.delivered(Number.POSITIVE_INFINITY, 8000);
    const arrived = new Map(traces);
    let lost = 0;
    let repeated = 0;
    for (const id of acknowledged) lost += Math.max(0, BATCH - (arrived.get(id) ?? 0));
    for (const [, count] of traces) repeated += Math.max(0, count - BATCH);
    const spans = acknowledged.size * BATCH;
    return { kind, kills, acknowledged: spans, delivered: spans - lost, lost, repeated };
  } finally {
    await side.stop();
  }
}
