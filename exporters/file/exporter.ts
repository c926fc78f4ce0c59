import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Exporter, Settings } from '../../src/component/component.ts';
import type { ObservationBatch } from '../../src/model/batch.ts';
import { PermanentError } from '../../src/model/errors.ts';
import { SMALL_BODY_BYTES, smallIndexOf } from '../../src/model/formats.ts';
import type { FileConfig } from './config.ts';
import { createLargeRenderer } from './large.ts';
import { renderLine } from './line.ts';
import { createWriter } from './writer.ts';

/** Rendering gives way to others after this many characters. */
const TURN_CHARACTERS = 1_048_576;

/**
 * Appends observations as JSON lines. At least once: a batch that is delivered again is written again,
 * and `raw_event_id` tells which lines are the same.
 *
 *   batch ──▶ lines (of a large one, in a thread) ──▶ writer: group ─▶ compress ─▶ rotate? ─▶ append ─▶ fsync ──▶ resolved
 */
export function createFileExporter(settings: Settings, config: FileConfig): Exporter {
  const writer = createWriter(settings, config);
  const large = createLargeRenderer();
  return {
    start: () => writer.open(),
    async shutdown() {
      await writer.close();
      await large.close();
    },
    async consume(batch) {
      if (batch.kind === 'raw') {
        throw new PermanentError(
          'wrong_kind',
          'The file exporter writes observations: put "normalization" in front of it.',
        );
      }
      const isSmall = smallIndexOf(batch.source, SMALL_BODY_BYTES) !== undefined;
      await writer.append(await (isSmall ? render(batch) : large.render(batch)));
    },
  };
}

async function render(batch: ObservationBatch): Promise<Buffer> {
  const parts: Buffer[] = [];
  let text = '';
  for (const observation of batch.observations) {
    text += renderLine(batch.source, observation);
    if (text.length < TURN_CHARACTERS) continue;
    parts.push(Buffer.from(text));
    text = '';
    await nextTurn();
  }
  parts.push(Buffer.from(text));
  return parts.length === 1 && parts[0] !== undefined ? parts[0] : Buffer.concat(parts);
}
