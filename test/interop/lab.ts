import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePorts } from '../helper/free-ports.ts';
import { type CanonicalSpan, spansOfFile } from './canonical.ts';
import { collector, type Peer, type PeerConfig, tracectl } from './peer.ts';
import type { Toolchain } from './toolchain.ts';

/** The processes and files of one step, which `close` ends and removes. */
export class Lab {
  readonly toolchain: Toolchain;
  readonly directory = mkdtempSync(join(tmpdir(), 'tracectl-interop-'));
  readonly #peers: Peer[] = [];
  readonly #closers: (() => Promise<void> | void)[] = [];

  constructor(toolchain: Toolchain) {
    this.toolchain = toolchain;
  }

  async port(): Promise<number> {
    const [port = 0] = await freePorts(1);
    return port;
  }

  async collector(name: string, config: PeerConfig): Promise<Peer> {
    const peer = await collector(this.toolchain.collector, name, this.place(name), config);
    this.#peers.push(peer);
    await peer.start();
    return peer;
  }

  async tracectl(
    name: string,
    config: PeerConfig,
  ): Promise<Peer & { readonly configPath: string }> {
    const peer = await tracectl(name, this.place(name), config);
    this.#peers.push(peer);
    await peer.start();
    return peer;
  }

  /** Creates a directory for one process. */
  place(name: string): string {
    const path = join(this.directory, name);
    mkdirSync(path, { recursive: true });
    return path;
  }

  onClose(close: () => Promise<void> | void): void {
    this.#closers.push(close);
  }

  /** The last output of every process. */
  output(): string {
    return this.#peers.map((peer) => `--- ${peer.name}\n${peer.output().slice(-1500)}`).join('\n');
  }

  async close(): Promise<void> {
    for (const close of this.#closers) await close();
    await Promise.all(this.#peers.map((peer) => peer.end('SIGKILL')));
    rmSync(this.directory, { recursive: true, force: true });
  }
}

/** A Collector that writes the OTLP that it gets, over HTTP or gRPC, into a file. */
export type FileCollector = {
  readonly peer: Peer;
  readonly http: string;
  readonly grpc: string;
  /** The spans in the file. */
  spans(): CanonicalSpan[];
  /** Resolves with all spans when the file has this many, or after 30 s. */
  arrived(count: number): Promise<CanonicalSpan[]>;
};

export async function fileCollector(lab: Lab, name: string): Promise<FileCollector> {
  const [http, grpc] = [await lab.port(), await lab.port()];
  const path = join(lab.place(name), 'spans.json');
  const peer = await lab.collector(name, {
    receivers: otlpReceiver(http, grpc),
    exporters: { file: { path, append: true, flush_interval: '50ms' } },
    service: {
      pipelines: { traces: { receivers: ['otlp'], exporters: ['file'] } },
      telemetry: { metrics: { level: 'none' } },
    },
  });
  const spans = () => spansOfFile(path);
  return {
    peer,
    http: `http://127.0.0.1:${http}`,
    grpc: `127.0.0.1:${grpc}`,
    spans,
    arrived: (count) => arrived(spans, count),
  };
}

const ARRIVAL_MS = 30_000;
/** Repeated spans would arrive within this time. */
const SETTLE_MS = 300;

/** Calls `look` until it returns this many spans. */
export async function arrived(
  look: () => CanonicalSpan[],
  count: number,
): Promise<CanonicalSpan[]> {
  const end = Date.now() + ARRIVAL_MS;
  while (look().length < count && Date.now() < end) await sleep(100);
  await sleep(SETTLE_MS);
  return look();
}

export type LabHop = {
  readonly peer: Peer & { readonly configPath: string };
  readonly http: string;
  readonly grpc: string;
};

/** tracectl as a hop with its queue on disk, before `endpoint`. */
export async function hop(
  lab: Lab,
  endpoint: string,
  exporter: object = {},
  name = 'tracectl',
): Promise<LabHop> {
  const [http, grpc] = [await lab.port(), await lab.port()];
  const peer = await lab.tracectl(name, {
    extensions: { file_storage: { directory: join(lab.place(name), 'queue') } },
    receivers: {
      otlp: {
        protocols: {
          http: { endpoint: `127.0.0.1:${http}`, max_spans_per_request: 10_000 },
          grpc: { endpoint: `127.0.0.1:${grpc}`, max_spans_per_request: 10_000 },
        },
        project: 'proj_hop',
      },
    },
    exporters: {
      otlphttp: {
        endpoint,
        timeout: '2s',
        retry_on_failure: { initial_interval: '100ms', max_interval: '400ms' },
        sending_queue: { storage: 'file_storage', queue_size: 100_000 },
        ...exporter,
      },
    },
    service: {
      extensions: ['file_storage'],
      pipelines: { traces: { receivers: ['otlp'], exporters: ['otlphttp'] } },
      telemetry: { metrics: { level: 'none' } },
    },
  });
  return { peer, http: `http://127.0.0.1:${http}`, grpc: `127.0.0.1:${grpc}` };
}

/** The OTLP receiver of a Collector. */
export function otlpReceiver(http: number, grpc: number): object {
  const at = (port: number) => ({ endpoint: `127.0.0.1:${port}` });
  return { otlp: { protocols: { http: at(http), grpc: at(grpc) } } };
}

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
