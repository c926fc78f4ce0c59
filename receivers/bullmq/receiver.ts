import type { Pipeline, Receiver, Settings } from '../../src/component/component.ts';
import type { BullmqReceiverConfig } from './config.ts';
import { fromJobs } from './from-jobs.ts';
import { fromStore } from './from-store.ts';

/** Jobs point into a store (from-store.ts) or hold their batches (from-jobs.ts). */
export function createReceiver(
  settings: Settings,
  config: BullmqReceiverConfig,
  pipeline: Pipeline,
): Receiver {
  const { store } = config;
  if (store === undefined) return fromJobs(settings, config, pipeline);
  return fromStore(settings, { ...config, store }, pipeline);
}
