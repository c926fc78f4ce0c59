import { systemClock } from '../../src/component/clock.ts';
import type { Clock } from '../../src/component/component.ts';
import type { Listener, Listeners } from '../../src/http/listener.ts';
import { createListeners } from '../../src/http/listener.ts';
import type { RepeatsConfig } from '../../src/http/repeats.ts';
import type { ServerLimits } from '../../src/http/server.ts';
import type { ReadLimits, Reads } from '../../src/read/reads.ts';
import { createReads } from '../../src/read/reads.ts';
import { readRoutes } from '../../src/read/routes.ts';
import type { RecordingLogger, RecordingMetrics } from './settings.ts';
import { recordingLogger, recordingMetrics } from './settings.ts';

export const USUAL_LIMITS: ServerLimits = {
  readHeaderTimeout: 10_000,
  readTimeout: 60_000,
  writeTimeout: 30_000,
  bodyRate: { bytesPerSecond: 16_384, period: 5_000 },
  maxConnections: 100,
  maxConnectionsPerAddress: 100,
};

export const READ_LIMITS: ReadLimits = {
  read_bytes: 128 * 1_048_576,
  scores_per_trace: 100,
  reads_per_key: 32,
  concurrent_reads: 4,
  concurrent_exports: 4,
  exports_per_key: 2,
  page_bytes: 8 * 1_048_576,
  page_time: 100,
  page_timeout: 10_000,
  read_cache_bytes: 1_048_576,
  wait_timeout: 30_000,
  waits_per_key: 8,
  waits: 64,
  streams_per_key: 4,
  streams_per_project: 16,
  streams: 64,
  stats_points: 20_000,
};

/** Listeners as the engine makes them, and what they log and count. */
export type TestListeners = Listeners & {
  readonly reads: Reads;
  readonly logger: RecordingLogger;
  readonly metrics: RecordingMetrics;
};

/** The owner of reads without a listener. */
export function testReadsOwner(limits: Partial<ReadLimits> = {}): Reads {
  const metrics = recordingMetrics();
  return createReads({ limits: { ...READ_LIMITS, ...limits }, metrics, clock: systemClock });
}

export function testListeners(
  inFlightBytes = 128 * 1_048_576,
  clock: Clock = systemClock,
  readLimits: Partial<ReadLimits> = {},
  repeats?: RepeatsConfig,
): TestListeners {
  const logger = recordingLogger();
  const metrics = recordingMetrics();
  const reads = createReads({ limits: { ...READ_LIMITS, ...readLimits }, metrics, clock });
  const limits = {
    in_flight_bytes: inFlightBytes,
    client_share: 0.25,
    client_reserve: 0.125,
    requests_per_key: 1024,
    read_cache_bytes: readLimits.read_cache_bytes ?? READ_LIMITS.read_cache_bytes,
  };
  return {
    ...createListeners({
      ...{ logger, metrics, clock, limits, ...(repeats && { repeats }) },
      common: ({ scanner }) => readRoutes({ reads, scanner, logger }),
    }),
    reads,
    logger,
    metrics,
  };
}

/** A signal that never comes: a stop without a deadline. */
export const NO_DEADLINE = new AbortController().signal;

/** The address of an open listener. */
export function urlOf(listener: Listener): string {
  const url = listener.url();
  if (url === undefined) throw new Error('the listener is not open');
  return url;
}
