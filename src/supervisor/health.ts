import type { ComponentHealth, HealthReport, HealthSource } from '../component/health.ts';
import { HEALTH_EVERY_MS } from './messages.ts';
import type { Supervisor } from './supervisor.ts';
import type { WorkerHandle } from './worker-handle.ts';

/** A worker without a report for this long counts as unresponsive. */
const SILENT_MS = 10 * HEALTH_EVERY_MS;

/**
 * The health of all workers as one service. It is ready from the first moment in which all workers were ready,
 * until the stop, while at least one worker runs and each running worker is ready. Clients never reach a
 * worker that is not running.
 */
export function healthOfAll(
  own: HealthSource,
  supervisor: Pick<Supervisor, 'workers' | 'phase'>,
): HealthSource {
  return {
    report(verbose): HealthReport {
      const { workers, phase } = supervisor;
      const service = own.report(verbose);
      const running = workers.filter(({ state }) => state === 'ready');
      const parts = workers.flatMap((worker) => partsOf(worker));
      const unwell = parts.filter(({ ready, healthy }) => ready === false || healthy === false);
      const isServing = running.length > 0 && running.every(isReady);
      const isDegraded = service.status === 'running' && unwell.length > 0;
      return {
        ...service,
        ready: phase === 'running' && service.ready && isServing,
        status: phase !== 'running' ? phase : isDegraded ? 'degraded' : service.status,
        components: [...service.components, ...(verbose ? parts : unwell)],
      };
    },
  };
}

function isReady({ report }: WorkerHandle): boolean {
  return report !== undefined && report.age < SILENT_MS && report.report.ready;
}

type Part = ComponentHealth & { readonly id: string };

function partsOf(worker: WorkerHandle): Part[] {
  const id = `worker-${worker.index}`;
  const { state, pid, restarts } = worker;
  const details = { pid: pid ?? null, restarts };
  // Clients cannot reach a worker that is down, so the worker does not make the service unready.
  if (state !== 'ready') return [{ id, healthy: false, message: `It is ${state}.`, details }];
  if (!isReady(worker)) {
    const { report } = worker;
    const isSilent = report === undefined || report.age >= SILENT_MS;
    const message = isSilent ? 'The worker does not report.' : 'The worker is not ready.';
    return [{ id, ready: false, message, details }, ...(isSilent ? [] : componentsOf(worker))];
  }
  return [{ id, ready: true, details }, ...componentsOf(worker)];
}

function componentsOf({ index, report }: WorkerHandle): Part[] {
  return (report?.report.components ?? []).map((part) => ({
    ...part,
    id: `worker-${index}/${part.id}`,
  }));
}
