import type { Clock, Logger } from '../component/component.ts';
import type { HealthRegistry } from '../component/health.ts';
import { lineSpacing } from '../component/line-spacing.ts';
import { DESCRIPTORS, type Descriptors, openDescriptors } from '../net/descriptors.ts';
import type { ServiceMetrics } from './metrics.ts';

type Parts = {
  readonly metrics: ServiceMetrics;
  readonly health: HealthRegistry;
  readonly logger: Logger;
  readonly clock: Clock;
};

/** A shortage is logged once in this time, and health shows it for as long. Milliseconds. */
const INTERVAL_MS = 10_000;
const REMEDY =
  'Raise the limit of open files of this process (ulimit -n, LimitNOFILE of systemd), or lower max_connections.';

/** Metrics, health and the log of missing file descriptors, until the returned function is called. */
export function reportDescriptors(parts: Parts, descriptors = DESCRIPTORS): () => void {
  if (!Number.isFinite(descriptors.limit)) return () => {};
  const { metrics, health, clock } = parts;
  let shortAt = Number.NEGATIVE_INFINITY;
  const isShort = (): boolean => Math.abs(clock.now() - shortAt) < INTERVAL_MS;
  registerMetrics(metrics, descriptors);
  const unregister = health.register('file_descriptors', () => ({
    healthy: !isShort(),
    ...(isShort() && { message: `New connections find no file descriptor. ${REMEDY}` }),
    details: { limit: descriptors.limit, open: openDescriptors() ?? null },
  }));
  const log = shortageLog(parts, descriptors);
  const unwatch = descriptors.watch(() => {
    shortAt = clock.now();
    log();
  });
  return () => {
    unwatch();
    unregister();
  };
}

function registerMetrics(metrics: ServiceMetrics, descriptors: Descriptors): void {
  metrics.gauge('tracectl_process_max_fds', 'Most file descriptors of the process.', () => [
    { value: descriptors.limit },
  ]);
  metrics.gauge('tracectl_process_open_fds', 'File descriptors in use.', () => [
    { value: openDescriptors() ?? 0 },
  ]);
  metrics.observedCounter(
    'tracectl_process_connections_short_of_fds_total',
    'New connections that were closed because few file descriptors were left.',
    () => descriptors.shortages,
  );
}

function shortageLog({ logger, clock }: Parts, { limit }: Descriptors): () => void {
  const spacing = lineSpacing(clock, INTERVAL_MS);
  return () => {
    const suppressed = spacing();
    if (suppressed === undefined) return;
    const fields = { open: openDescriptors(), limit, suppressed, remedy: REMEDY };
    logger.warn(fields, 'Connections closed: few file descriptors are left');
  };
}
