import type { Exporter, Settings } from '../../src/component/component.ts';
import { rawOf } from '../../src/model/batch.ts';
import type { FileConfig } from './config.ts';
import { createRenderer } from './renderer.ts';
import { createWriter } from './writer.ts';

/**
 * Appends observations as JSON lines, or batches as OTLP/JSON. Delivery is at least once: a batch that is
 * delivered again is written again, and `raw_event_id`, or the span's id, identifies the repeated lines.
 *
 *   batch ──▶ lines (large: in a thread) ──▶ writer: group ─▶ compress ─▶ rotate? ─▶ append ─▶ fsync ──▶ resolved
 */
export function createExporter(settings: Settings, config: FileConfig): Exporter {
  const writer = createWriter(settings, config);
  const renderer = createRenderer();
  return {
    start: () => writer.open(),
    async shutdown() {
      await writer.close();
      await renderer.close();
    },
    async consume(batch) {
      const source = rawOf(batch);
      const observations = batch.kind === 'raw' ? undefined : batch.observations;
      const format = batch.kind === 'raw' ? 'otlp_json' : (config.format ?? 'json');
      await writer.append(await renderer.render({ source, observations, format }));
    },
  };
}
