import type { SealedBatch } from '../../src/model/batch.ts';
import { rawEventId } from '../../src/model/batch.ts';
import { payload, positionOf, sourceOf } from '../../src/model/formats.ts';
import type { Observation } from '../../src/model/observation.ts';
import { observationJson } from '../../src/store/observation-json.ts';
import { onOneLine } from './one-line.ts';

/**
 * One event of an observation: the public form of an observation, led by what tells events apart. Its
 * times of creation and change are both the time the event was received.
 */
export function renderLine(source: SealedBatch, observation: Observation): string {
  const { index, operation, payloadMask: _mask, ...fields } = observation;
  const position = positionOf(source, index);
  const text = observationJson(
    {
      ...fields,
      projectId: source.tenant.projectId,
      source: sourceOf(source.format),
      createdAt: source.receivedAt,
      updatedAt: source.receivedAt,
    },
    position === undefined ? {} : payload(source, position),
  );
  const lead = JSON.stringify({ raw_event_id: rawEventId(source.id, index), operation });
  return `${lead.slice(0, -1)},${onOneLine(text.slice(1))}\n`;
}
