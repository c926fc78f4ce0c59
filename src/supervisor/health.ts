import type { ComponentHealth, HealthReport, HealthSource } from '../component/health.ts';
import { HEALTH_EVERY_MS } from './messages.ts';
import type { Supervisor } from './supervisor.ts';
import type { WorkerHandle } from './worker-handle.ts';

/** A worker that said nothing for this long does not answer its clients either. */
const SILENT_MS = 10 * HEALTH_EVERY_MS;

/**
 * How all workers are, as one service. Ready from when all were, until the stop, while at least one runs
 * and each that runs is ready: clients never come to one that does not.
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
  // Clients do not come to one that does not run, so that it takes nobody out of rotation.
  if (state !== 'ready') return [{ id, healthy: false, message: `It is ${state}.`, details }];
  if (!isReady(worker)) {
    const { report } = worker;
    const isSilent = report === undefined || report.age >= SILENT_MS;
    const message = isSilent ? 'It does not answer.' : 'It cannot accept.';
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
