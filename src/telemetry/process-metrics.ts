import { performance } from 'node:perf_hooks';
import type { Clock } from '../component/component.ts';
import type { ServiceMetrics } from './metrics.ts';

/** Gauges of this process: uptime, memory, CPU and event loop. */
export function registerProcessMetrics(
  metrics: ServiceMetrics,
  clock: Clock,
  version: string,
): void {
  const startedAt = clock.now();
  const info = { version, node: process.version };
  const gauge = (name: string, description: string, read: () => number) =>
    metrics.gauge(name, description, () => [{ value: read() }]);

  metrics.gauge('tracectl_build_info', 'Always 1; the labels name the build.', () => [
    { value: 1, labels: info },
  ]);
  gauge('tracectl_process_uptime_seconds', 'Seconds since the service was created.', () => {
    return Math.max(0, clock.now() - startedAt) / 1000;
  });
  metrics.observedCounter(
    'tracectl_process_cpu_seconds_total',
    'CPU time of the process, user and system.',
    () => {
      const { user, system } = process.cpuUsage();
      return (user + system) / 1e6;
    },
  );
  gauge('tracectl_process_memory_rss_bytes', 'Resident memory of the process.', () =>
    process.memoryUsage.rss(),
  );
  gauge('tracectl_process_heap_used_bytes', 'Memory of JavaScript objects.', () => {
    return process.memoryUsage().heapUsed;
  });
  let last = performance.eventLoopUtilization();
  gauge(
    'tracectl_process_event_loop_utilization_ratio',
    'Share of the time since the last scrape in which the event loop was busy.',
    () => {
      const now = performance.eventLoopUtilization();
      const { utilization } = performance.eventLoopUtilization(now, last);
      last = now;
      return utilization;
    },
  );
}
