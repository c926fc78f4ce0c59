import type { Exporter, Settings } from '../../src/component/component.ts';
import type { BullmqExporterConfig } from './config.ts';
import { inJobs } from './in-jobs.ts';
import { inStore } from './in-store.ts';

/** Batches are kept in a store (in-store.ts) or in their jobs (in-jobs.ts). */
export function createExporter(settings: Settings, config: BullmqExporterConfig): Exporter<'raw'> {
  const { store } = config;
  return store === undefined ? inJobs(settings, config) : inStore(settings, { ...config, store });
}
