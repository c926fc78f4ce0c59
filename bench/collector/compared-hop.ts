import { type ChildProcess, fork } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { treeCpuMicros, treeMemory } from '../process-cost.ts';
import type { Answers, RequestLoad } from './generator.ts';
import { sendLoad } from './generator.ts';
import { type HopKind, type MeasuredHop, type Programs, startHop } from './hops.ts';
import type { SinkCommand, SinkReport } from './sink.ts';

const SINK = fileURLToPath(new URL('./sink.ts', import.meta.url));
const SAMPLE_MS = 100;

export type Cost = {
  readonly cpuMicros: number;
  readonly seconds: number;
  /** The highest resident memory, in bytes. */
  readonly memory: number;
  /** Spans that arrived at the destination in the interval. */
  readonly delivered: number;
};

/** A collector with a destination of its own. */
export class ComparedHop {
  readonly kind: HopKind;
  readonly hop: MeasuredHop;
  readonly #sink: ChildProcess;
  readonly #directory: string;

  constructor(kind: HopKind, hop: MeasuredHop, sink: ChildProcess, directory: string) {
    this.kind = kind;
    this.hop = hop;
    this.#sink = sink;
    this.#directory = directory;
  }

  static async start(
    kind: HopKind,
    programs: Programs,
    compression: 'gzip' | 'none',
  ): Promise<ComparedHop> {
    const directory = mkdtempSync(join(tmpdir(), 'tracectl-hop-'));
    const sink = fork(SINK, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
    const { port } = await message(sink);
    const hop = await startHop({ kind, programs, directory, sinkPort: port, compression });
    return new ComparedHop(kind, hop, sink, directory);
  }

  send(load: RequestLoad): Promise<Answers> {
    return sendLoad(this.hop.port, load);
  }

  tell(command: SinkCommand): void {
    this.#sink.send(command);
  }

  report(): Promise<SinkReport> {
    const answer = message(this.#sink);
    this.tell({ type: 'report' });
    return answer;
  }

  /** Resolves when the destination has this many spans in total, or gets no more for `patienceMs`. */
  async delivered(spans: number, patienceMs = 30_000): Promise<SinkReport> {
    let last = await this.report();
    let changedAt = performance.now();
    while (last.spans < spans && performance.now() - changedAt < patienceMs) {
      await pause(50);
      const now = await this.report();
      if (now.spans > last.spans) changedAt = performance.now();
      last = now;
    }
    return last;
  }

  /** Resources that the collector used during `work`. */
  async cost(work: () => Promise<void>): Promise<Cost> {
    const pid = this.hop.pid();
    const before = (await this.report()).spans;
    let most = treeMemory(pid);
    const sampling = setInterval(() => {
      most = Math.max(most, treeMemory(pid));
    }, SAMPLE_MS);
    const started = performance.now();
    const cpu = treeCpuMicros(pid);
    try {
      await work();
      return {
        cpuMicros: treeCpuMicros(pid) - cpu,
        seconds: (performance.now() - started) / 1000,
        memory: Math.max(most, treeMemory(pid)),
        delivered: (await this.report()).spans - before,
      };
    } finally {
      clearInterval(sampling);
    }
  }

  async stop(): Promise<void> {
    await this.hop.end('SIGKILL');
    this.#sink.removeAllListeners('exit');
    const ended = new Promise((resolve) => this.#sink.once('exit', resolve));
    this.#sink.disconnect();
    await ended;
    rmSync(this.#directory, { recursive: true, force: true });
  }
}

function message(sink: ChildProcess): Promise<SinkReport> {
  return new Promise((resolve, reject) => {
    const ended = () => reject(new Error('the destination of the benchmark ended'));
    sink.once('exit', ended);
    sink.once('message', (report) => {
      sink.off('exit', ended);
      resolve(report as SinkReport);
    });
  });
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
