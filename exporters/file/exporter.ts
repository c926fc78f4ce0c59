import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Exporter, Settings } from '../../src/component/component.ts';
import type { SealedBatch } from '../../src/model/batch.ts';
import { rawOf } from '../../src/model/batch.ts';
import { SMALL_BODY_BYTES, smallIndexOf } from '../../src/model/formats.ts';
import type { Observation } from '../../src/model/observation.ts';
import type { FileConfig } from './config.ts';
import { createLargeRenderer } from './large.ts';
import { renderLine } from './line.ts';
import { renderOtlpLine } from './otlp-line.ts';
import { createWriter } from './writer.ts';

/** Rendering gives way to others after this many characters. */
const TURN_CHARACTERS = 1_048_576;

/**
 * Appends observations as JSON lines, or batches as OTLP/JSON. At least once: a batch that is delivered again is written again,
 * and `raw_event_id`, or the span's id, tells which lines are the same.
 *
 *   batch ──▶ lines (of a large one, in a thread) ──▶ writer: group ─▶ compress ─▶ rotate? ─▶ append ─▶ fsync ──▶ resolved
 */
export function createExporter(settings: Settings, config: FileConfig): Exporter {
  const writer = createWriter(settings, config);
  const large = createLargeRenderer();
  return {
    start: () => writer.open(),
    async shutdown() {
      await writer.close();
      await large.close();
    },
    async consume(batch) {
      const source = rawOf(batch);
      const observations = batch.kind === 'raw' ? undefined : batch.observations;
      const format = batch.kind === 'raw' ? 'otlp_json' : (config.format ?? 'json');
      const isSmall = smallIndexOf(source, SMALL_BODY_BYTES) !== undefined;
      if (!isSmall) await writer.append(await large.render({ source, observations, format }));
      else if (format === 'otlp_json') {
        await writer.append(await renderOtlpLine(source, observations));
      } else await writer.append(await renderLines(source, observations ?? []));
    },
  };
}

async function renderLines(
  source: SealedBatch,
  observations: readonly Observation[],
): Promise<Buffer> {
  const parts: Buffer[] = [];
  let text = '';
  for (const observation of observations) {
    text += renderLine(source, observation);
    if (text.length < TURN_CHARACTERS) continue;
    parts.push(Buffer.from(text));
    text = '';
    await nextTurn();
  }
  parts.push(Buffer.from(text));
  return parts.length === 1 && parts[0] !== undefined ? parts[0] : Buffer.concat(parts);
}
