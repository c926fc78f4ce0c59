import type { Exporter, Settings } from '../../src/component/component.ts';
import type { OtlpHttpConfig } from './config.ts';
import { DirectExporter } from './direct.ts';
import { QueuedExporter } from './queued.ts';
import { Sender } from './sender.ts';
import { createSendMetrics } from './telemetry.ts';

/**
 *   batch ─▶ sending queue, on disk ─▶ answer                                 (queued.ts)
 *                │
 *                ├─ OTLP: the bytes that arrived ────────────────────────────┐
 *                └─ events: ended ─▶ span; started ─▶ held for their finish ─┴─▶ sender ─▶ destination
 *
 *   batch ─▶ sender ─▶ destination ─▶ answer                                  (direct.ts)
 */
export function createExporter(settings: Settings, config: OtlpHttpConfig): Exporter {
  const { enabled, storage } = config.sending_queue;
  const isQueued = enabled && storage !== undefined;
  const metrics = createSendMetrics(settings.metrics, settings.id);
  const sender = new Sender(settings, config, isQueued, metrics);
  return isQueued
    ? new QueuedExporter(settings, config, storage, sender)
    : new DirectExporter(settings, config, sender);
}
