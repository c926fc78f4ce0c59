import type { Worker } from '../component/component.ts';
import type { ServiceConfig } from '../config/config.ts';

/** The part of a configuration that runs in the supervisor: extensions such as health checks, and metrics. */
export function supervisorPart(config: ServiceConfig): ServiceConfig {
  return {
    ...config,
    receivers: new Map(),
    processors: new Map(),
    exporters: new Map(),
    connectors: new Map(),
    service: {
      ...config.service,
      extensions: config.service.extensions.filter((id) => runsIn(config, id) === 'supervisor'),
      pipelines: [],
    },
  };
}

/** The part of a configuration that runs in this worker. */
export function workerPart(config: ServiceConfig, { index }: Worker): ServiceConfig {
  const { telemetry } = config.service;
  return {
    ...config,
    service: {
      ...config.service,
      workers: 1,
      extensions: config.service.extensions.filter((id) => {
        const where = runsIn(config, id);
        return where === 'each' || (where === 'first' && index === 1);
      }),
      // The supervisor collects the metrics of workers over the channel.
      telemetry: { ...telemetry, metrics: { ...telemetry.metrics, level: 'none' } },
    },
  };
}

function runsIn(config: ServiceConfig, id: string): 'each' | 'first' | 'supervisor' {
  return config.extensions.get(id)?.factory.placement?.runsIn ?? 'each';
}
