import type { ServiceConfig } from '../config/config.ts';

/** What of a configuration runs in the process that watches: extensions such as health checks, and metrics. */
export function watcherPart(config: ServiceConfig): ServiceConfig {
  return {
    ...config,
    receivers: new Map(),
    processors: new Map(),
    exporters: new Map(),
    connectors: new Map(),
    service: {
      ...config.service,
      extensions: config.service.extensions.filter((id) => watches(config, id)),
      pipelines: [],
    },
  };
}

/** What of a configuration runs in each worker. */
export function workerPart(config: ServiceConfig): ServiceConfig {
  const { telemetry } = config.service;
  return {
    ...config,
    service: {
      ...config.service,
      workers: 1,
      extensions: config.service.extensions.filter((id) => !watches(config, id)),
      // They are collected over the channel.
      telemetry: { ...telemetry, metrics: { ...telemetry.metrics, level: 'none' } },
    },
  };
}

function watches(config: ServiceConfig, id: string): boolean {
  return config.extensions.get(id)?.factory.watches === true;
}
