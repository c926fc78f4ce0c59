import { type ChildProcess, fork, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { freePorts } from '../test/helper/free-ports.ts';
import { bodyMaker, httpRequest } from './collector/bodies.ts';
import { builtEntry } from './collector/built.ts';
import { pause } from './collector/compared-hop.ts';
import { sendLoad } from './collector/generator.ts';
import type { SinkReport } from './collector/sink.ts';
import { quantile } from './compare.ts';
import { median } from './median.ts';
import { unlike } from './payloads.ts';
import { memory, treeCpuMicros } from './process-cost.ts';

/**
 * Start and memory of a hop against bare `node:http` with two threads; README.md describes the rows.
 *   node bench/footprint.ts [--only REGEX] [--quick] [--entry MAIN]
 * `--entry` measures another tree, e.g. the one before a change.
 */
const { values: flags } = parseArgs({
  options: {
    only: { type: 'string', default: '.' },
    quick: { type: 'boolean', default: false },
    entry: { type: 'string' },
  },
});
const QUICK = flags.quick;
const STARTS = QUICK ? 3 : 9;
const RATE_SECONDS = QUICK ? 8 : 20;
const SATURATED_SECONDS = QUICK ? 5 : 15;
const QUIET_MS = 60_000;
/** Longer than the first trim takes. */
const IDLE_MS = 60_000;
const RATE = 100;
const BACKLOG_REQUESTS = QUICK ? 1000 : 10_000;
const LARGE_BYTES = 25_000_000;

const SINK = fileURLToPath(new URL('./collector/sink.ts', import.meta.url));
const BARE = new URL('./bare.ts', import.meta.url);
const entry = flags.entry ?? (await builtEntry());
const make = bodyMaker({ spans: 100, attributes: 10, attributeBytes: 80, compression: 'gzip' });
const bodies = Array.from({ length: 64 }, () => make().bytes);
let sent = 0;
const next = () => httpRequest(unlike(bodies[sent++ % 64] ?? Buffer.alloc(0), sent), 'gzip');

class Measured {
  readonly name: string;
  readonly child: ChildProcess;
  readonly port: number;
  readonly startMicros: number;
  readonly #sink: ChildProcess;
  readonly #directory: string;

  private constructor(
    name: string,
    child: ChildProcess,
    port: number,
    sink: ChildProcess,
    directory: string,
  ) {
    this.name = name;
    this.child = child;
    this.port = port;
    this.#sink = sink;
    this.#directory = directory;
    this.startMicros = treeCpuMicros(this.pid);
  }

  static async start(name: 'tracectl' | 'floor'): Promise<Measured> {
    const directory = mkdtempSync(join(tmpdir(), 'tracectl-footprint-'));
    const sink = fork(SINK, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
    const { port: destination } = await report(sink);
    const [free = 0] = await freePorts(1);
    const config = join(directory, 'hop.yaml');
    writeFileSync(config, JSON.stringify(hopConfig(directory, free, destination)));
    // As JavaScript: Node's own removal of types would take 30 MB of the floor.
    const bare = join(directory, 'bare.mjs');
    writeFileSync(bare, stripTypeScriptTypes(readFileSync(BARE, 'utf8')));
    const args = name === 'floor' ? [bare, String(destination)] : [entry, 'run', '-c', config];
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    const said = await firstText(child);
    const port = name === 'floor' ? Number(/\d+/.exec(said)?.[0]) : free;
    return new Measured(name, child, port, sink, directory);
  }

  get pid(): number {
    return this.child.pid ?? 0;
  }

  refuse(refuses: boolean): void {
    this.#sink.send({ type: 'refuse', refuses });
  }

  async load(seconds: number, rate: number | undefined): Promise<void> {
    const end = performance.now() + seconds * 1000;
    await sendLoad(this.port, {
      connections: rate === undefined ? 32 : 4,
      ...(rate === undefined ? {} : { rate }),
      next: () => (performance.now() < end ? { bytes: next() } : undefined),
    });
  }

  /** The median of resident memory, in the second half of the work. */
  async during(work: Promise<void>): Promise<number> {
    const samples: number[] = [];
    const sampling = setInterval(() => samples.push(this.resident()), 200);
    await work;
    clearInterval(sampling);
    return quantile(
      samples.slice(samples.length / 2).toSorted((a, b) => a - b),
      0.5,
    );
  }

  resident(): number {
    return memory(this.pid).now / 2 ** 20;
  }

  /** Resolves when the destination gets no more. */
  async drained(): Promise<void> {
    for (let before = -1; ; await pause(2000)) {
      const answer = report(this.#sink);
      this.#sink.send({ type: 'report' });
      const { spans } = await answer;
      if (spans === before) return;
      before = spans;
    }
  }

  async stop(): Promise<void> {
    const ended = new Promise((resolve) => this.child.once('exit', resolve));
    this.child.kill('SIGKILL');
    await ended;
    this.#sink.removeAllListeners('exit').disconnect();
    rmSync(this.#directory, { recursive: true, force: true });
  }
}

function hopConfig(directory: string, port: number, destination: number): unknown {
  const http = { endpoint: `127.0.0.1:${port}`, max_spans_per_request: 10_000 };
  const queue = { storage: 'file_storage', queue_size: 100_000, num_consumers: 10 };
  return {
    extensions: { file_storage: { directory: join(directory, 'queue') } },
    receivers: { otlp: { protocols: { http }, project: 'proj_hop' } },
    exporters: {
      otlphttp: {
        ...{ endpoint: `http://127.0.0.1:${destination}`, compression: 'gzip' },
        retry_on_failure: { initial_interval: '1s', max_interval: '5s', max_elapsed_time: '0s' },
        sending_queue: queue,
      },
    },
    service: {
      extensions: ['file_storage'],
      pipelines: { traces: { receivers: ['otlp'], exporters: ['otlphttp'] } },
      telemetry: { logs: { level: 'error' }, metrics: { level: 'none' } },
    },
  };
}

function firstText(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    child.once('exit', (code) => reject(new Error(`the process ended with ${code}`)));
    child.stdout?.once('data', (text: Buffer) => resolve(text.toString()));
  });
}

function report(sink: ChildProcess): Promise<SinkReport> {
  return new Promise((resolve) => {
    sink.once('message', (message) => resolve(message as SinkReport));
  });
}

/** Bodies near the limit: one span with a text that does not compress well. */
function largeRequest(): Buffer {
  const one = bodyMaker({
    ...{ spans: 1, attributes: 1, compression: 'gzip' },
    attributeBytes: LARGE_BYTES,
  });
  return httpRequest(one().bytes, 'gzip');
}

type Row = { readonly name: string; readonly unit: string; readonly target: string };
const ROWS = {
  start: { name: 'start to ready, CPU', unit: 'ms', target: '≤ 400 ms' },
  idle: { name: 'RSS idle', unit: 'MiB', target: '≤ 94 MiB' },
  rate: { name: 'RSS at 10,000 spans/s', unit: 'MiB', target: '≤ 140 MiB' },
  after: { name: 'RSS after saturation, at 10,000 spans/s', unit: 'MiB', target: '≤ 140 MiB' },
  quiet: { name: 'RSS after a minute of quiet', unit: 'MiB', target: '' },
  large: { name: 'RSS a minute after 24 bodies of 25 MB', unit: 'MiB', target: 'as before' },
  backlog: {
    name: `RSS a minute after a backlog of ${BACKLOG_REQUESTS * 100} spans`,
    unit: 'MiB',
    target: 'as before',
  },
} as const satisfies Record<string, Row>;
type Figures = Partial<Record<keyof typeof ROWS, number>>;

async function starts(): Promise<[number, number]> {
  const all: Record<'tracectl' | 'floor', number[]> = { tracectl: [], floor: [] };
  for (let i = 0; i < STARTS; i++) {
    for (const name of ['floor', 'tracectl'] as const) {
      const started = await Measured.start(name);
      all[name].push(started.startMicros / 1000);
      await started.stop();
    }
  }
  return [median(all.tracectl), median(all.floor)];
}

async function figuresOf(name: 'tracectl' | 'floor'): Promise<Figures> {
  const measured = await Measured.start(name);
  try {
    await pause(IDLE_MS);
    const idle = measured.resident();
    const rate = await measured.during(measured.load(RATE_SECONDS, RATE));
    await measured.load(SATURATED_SECONDS, undefined);
    await measured.drained();
    const after = await measured.during(measured.load(RATE_SECONDS, RATE));
    await pause(QUIET_MS);
    const quiet = measured.resident();
    if (name === 'floor') return { idle, rate, after, quiet };
    const request = largeRequest();
    let left = 24;
    await sendLoad(measured.port, {
      connections: 6,
      next: () => (left-- > 0 ? { bytes: request } : undefined),
    });
    await measured.drained();
    await pause(QUIET_MS);
    const large = measured.resident();
    measured.refuse(true);
    let waiting = BACKLOG_REQUESTS;
    await sendLoad(measured.port, {
      connections: 8,
      next: () => (waiting-- > 0 ? { bytes: next() } : undefined),
    });
    measured.refuse(false);
    await pause(6000);
    await measured.drained();
    await pause(QUIET_MS);
    return { idle, rate, after, quiet, large, backlog: measured.resident() };
  } finally {
    await measured.stop();
  }
}

function show(key: keyof typeof ROWS, ours: number | undefined, floor: number | undefined): void {
  if (ours === undefined) return;
  const { name, unit, target } = ROWS[key];
  const against = floor === undefined ? ['–', '–'] : [floor.toFixed(0), (ours / floor).toFixed(2)];
  print([`${name} (${unit})`, ours.toFixed(0), ...against, target]);
}

function print(cells: readonly string[]): void {
  process.stdout.write(`| ${cells.join(' | ')} |\n`);
}

print(['row', 'tracectl', 'floor', 'ratio', 'goal']);
print(['---', '---', '---', '---', '---']);
const only = new RegExp(flags.only);
if (only.test('start')) show('start', ...(await starts()));
if (only.test('memory')) {
  const floor = await figuresOf('floor');
  const ours = await figuresOf('tracectl');
  for (const key of ['idle', 'rate', 'after', 'quiet', 'large', 'backlog'] as const) {
    show(key, ours[key], floor[key]);
  }
}
