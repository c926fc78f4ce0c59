import type { ReceivedBatch } from '../../src/model/batch.ts';
import { STORED_LIMITS, scan } from '../../src/model/formats.ts';
import { adopt, takeEditedBytes } from '../../src/model/verbs.ts';

/** Applies the edits of a processor to a small batch, as the engine does after `process`. */
export function applyEdits(batch: ReceivedBatch): void {
  const bytes = takeEditedBytes(batch);
  if (bytes !== undefined) adopt(batch, scan(batch.format, bytes, STORED_LIMITS));
}
