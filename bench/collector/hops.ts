import { join } from 'node:path';
import { freePorts } from '../../test/helper/free-ports.ts';
import { collector, type Peer, tracectl } from '../../test/interop/peer.ts';
import { startFloor } from '../servers.ts';

/** A compared collector: receives OTLP/HTTP, queues it on disk and forwards it. */
export type MeasuredHop = Peer & { readonly port: number };

/** The floor is the mode `hop` of bench/floor.ts. */
export type HopKind = 'tracectl' | 'collector, fsync' | 'collector' | 'floor';

export type Programs = {
  /** The OpenTelemetry Collector; not for a comparison with the floor. */
  readonly collector?: string;
  /** The compiled entry of tracectl. */
  readonly tracectl: string;
};

export type HopOptions = {
  readonly kind: HopKind;
  readonly programs: Programs;
  readonly directory: string;
  /** The port of the destination. */
  readonly sinkPort: number;
  readonly compression: 'gzip' | 'none';
};

/** Both queues hold the requests of the largest backlog. */
const QUEUE_SIZE = 100_000;

export async function startHop(options: HopOptions): Promise<MeasuredHop> {
  if (options.kind === 'floor') return startFloorHop(options.sinkPort);
  const [port = 0] = await freePorts(1);
  const { kind, programs, directory } = options;
  const peer =
    kind === 'tracectl'
      ? await tracectl('tracectl', directory, tracectlConfig(port, options), programs.tracectl)
      : await collector(
          programs.collector ?? '',
          'otelcol',
          directory,
          collectorConfig(port, options),
        );
  await peer.start();
  return Object.assign(peer, { port });
}

/** Runs at once; it cannot be started again. */
async function startFloorHop(sinkPort: number): Promise<MeasuredHop> {
  const { pid, port, stop } = await startFloor('hop', sinkPort);
  return {
    name: 'floor',
    port,
    pid: () => pid,
    start: async () => {},
    end: stop,
    output: () => '',
  };
}

const RETRY = { initial_interval: '1s', max_interval: '5s', max_elapsed_time: '0s' };

function exporterConfig({ sinkPort, compression }: HopOptions) {
  return {
    endpoint: `http://127.0.0.1:${sinkPort}`,
    compression,
    retry_on_failure: RETRY,
    sending_queue: { storage: 'file_storage', queue_size: QUEUE_SIZE, num_consumers: 10 },
  };
}

function tracectlConfig(port: number, options: HopOptions) {
  return {
    extensions: { file_storage: { directory: join(options.directory, 'queue') } },
    receivers: {
      otlp: {
        protocols: { http: { endpoint: `127.0.0.1:${port}`, max_spans_per_request: 10_000 } },
        project: 'proj_hop',
      },
    },
    exporters: { otlphttp: exporterConfig(options) },
    service: {
      extensions: ['file_storage'],
      pipelines: { traces: { receivers: ['otlp'], exporters: ['otlphttp'] } },
      telemetry: { logs: { level: 'error' }, metrics: { level: 'none' } },
    },
  };
}

function collectorConfig(port: number, options: HopOptions) {
  return {
    extensions: {
      file_storage: {
        directory: join(options.directory, 'queue'),
        create_directory: true,
        fsync: options.kind === 'collector, fsync',
      },
    },
    receivers: { otlp: { protocols: { http: { endpoint: `127.0.0.1:${port}` } } } },
    exporters: { otlp_http: exporterConfig(options) },
    service: {
      extensions: ['file_storage'],
      pipelines: { traces: { receivers: ['otlp'], exporters: ['otlp_http'] } },
      telemetry: { logs: { level: 'error' }, metrics: { level: 'none' } },
    },
  };
}
