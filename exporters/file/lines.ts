import type { SealedBatch } from '../../src/model/batch.ts';
import { rawEventId } from '../../src/model/batch.ts';
import { PermanentError } from '../../src/model/errors.ts';
import { indexOf, observe, payload, positionOf, sourceOf } from '../../src/model/formats.ts';
import { onOneLine } from '../../src/model/json/one-line.ts';
import type { Observation } from '../../src/model/observation.ts';
import { decodeSpansAt, encodeOtlp } from '../../src/model/otlp/encode.ts';
import { OBSERVATION_ORIGIN, spanOfObservation } from '../../src/model/otlp/encode-observation.ts';
import { encodeOwnSpans, type OwnSpan } from '../../src/model/otlp/own-span.ts';
import { observationJson } from '../../src/store/observation-json.ts';

/** The start of every line, by format; it identifies the files of this exporter. */
export const LINE_STARTS = { json: '{"raw_event_id":"', otlp_json: '{"resourceSpans":' } as const;

/**
 * One event of an observation as a line: the members that identify the event, then the public form of the
 * observation. Its times of creation and change are both the time of arrival.
 */
export function observationLine(source: SealedBatch, observation: Observation): string {
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

/**
 * A batch as a line of the Collector's files: an ExportTraceServiceRequest in OTLP's JSON encoding. Spans that
 * arrived keep every field that JSON has a name for; a native event or run becomes a span. `observations`
 * selects items; undefined selects all.
 */
export async function otlpLine(
  source: SealedBatch,
  observations: readonly Observation[] | undefined,
): Promise<Buffer> {
  const index = indexOf(source);
  if (index.type !== 'otlp_proto' && index.type !== 'otlp_json') {
    const spans = ownSpansOf(source, observations ?? observedOf(source));
    return withNewline(await encodeOwnSpans(OBSERVATION_ORIGIN, spans, 'json'));
  }
  if (index.type === 'otlp_json' && observations === undefined) {
    const text = onOneLine(index.bytes.toString());
    // A request may also start otherwise, such as with white space. It is then encoded again.
    if (text.startsWith(LINE_STARTS.otlp_json)) return withNewline(Buffer.from(text));
  }
  const positions =
    observations === undefined
      ? Array.from({ length: index.count }, (_, i) => i)
      : observations.map((each) => positionOf(source, each.index) ?? -1).filter((at) => at >= 0);
  return withNewline(encodeOtlp(decodeSpansAt(index, positions), 'json'));
}

function ownSpansOf(source: SealedBatch, observations: readonly Observation[]): OwnSpan[] {
  return observations.map((observation) => {
    const position = positionOf(source, observation.index);
    const fields = position === undefined ? {} : payload(source, position);
    return spanOfObservation(observation, fields, source.receivedAt);
  });
}

/** Rejects the whole batch if one item cannot be read; `validation` rejects such items earlier. */
function observedOf(source: SealedBatch): readonly Observation[] {
  try {
    return observe(source);
  } catch (cause) {
    throw new PermanentError('invalid_event', 'An item of the batch cannot be read.', { cause });
  }
}

function withNewline(json: Buffer): Buffer {
  return Buffer.concat([json, NEWLINE]);
}

const NEWLINE = Buffer.from('\n');
