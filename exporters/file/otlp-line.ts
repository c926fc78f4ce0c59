import type { SealedBatch } from '../../src/model/batch.ts';
import { PermanentError } from '../../src/model/errors.ts';
import { indexOf, observe, payload, positionOf } from '../../src/model/formats.ts';
import type { Observation } from '../../src/model/observation.ts';
import { decodeSpansAt, encodeOtlp } from '../../src/model/otlp/encode.ts';
import { OBSERVATION_ORIGIN, spanOfObservation } from '../../src/model/otlp/encode-observation.ts';
import { encodeOwnSpans, type OwnSpan } from '../../src/model/otlp/own-span.ts';
import { onOneLine } from './one-line.ts';

/** How every line begins. */
export const OTLP_LINE_START = '{"resourceSpans":';

/**
 * A batch in the form of the Collector's files: one ExportTraceServiceRequest in OTLP's JSON encoding a line.
 * Spans that arrived keep every field that JSON has a name for; a native event or run becomes a span.
 * `observations` selects items; undefined selects all.
 */
export async function renderOtlpLine(
  source: SealedBatch,
  observations: readonly Observation[] | undefined,
): Promise<Buffer> {
  const index = indexOf(source);
  if (index.type !== 'otlp_proto' && index.type !== 'otlp_json') {
    return line(await encodeOwnSpans(OBSERVATION_ORIGIN, spansOf(source, observations), 'json'));
  }
  if (index.type === 'otlp_json' && observations === undefined) {
    const text = onOneLine(index.bytes.toString());
    // Another beginning, such as white space, is legal too, but is no start of a line here: encode the spans.
    if (text.startsWith(OTLP_LINE_START)) return line(Buffer.from(text));
  }
  const positions =
    observations === undefined
      ? Array.from({ length: index.count }, (_, i) => i)
      : observations.map((each) => positionOf(source, each.index) ?? -1).filter((at) => at >= 0);
  return line(encodeOtlp(decodeSpansAt(index, positions), 'json'));
}

function spansOf(source: SealedBatch, given: readonly Observation[] | undefined): OwnSpan[] {
  return (given ?? observedOf(source)).map((observation) => {
    const position = positionOf(source, observation.index);
    const fields = position === undefined ? {} : payload(source, position);
    return spanOfObservation(observation, fields, source.receivedAt);
  });
}

/** Nothing of a batch is written when an item of it cannot be: `validation` keeps such items out. */
function observedOf(source: SealedBatch): readonly Observation[] {
  try {
    return observe(source);
  } catch (cause) {
    throw new PermanentError('invalid_event', 'An item of the batch cannot be read.', { cause });
  }
}

function line(json: Buffer): Buffer {
  return Buffer.concat([json, NEWLINE]);
}

const NEWLINE = Buffer.from('\n');
