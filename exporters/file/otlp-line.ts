import type { SealedBatch } from '../../src/model/batch.ts';
import { PermanentError } from '../../src/model/errors.ts';
import { indexOf, observe, payload, positionOf } from '../../src/model/formats.ts';
import type { Observation } from '../../src/model/observation.ts';
import { encodeRequest, requestOf } from '../../src/model/otlp/encode.ts';
import { requestOfSpans, spanOfObservation } from '../../src/model/otlp/encode-observation.ts';
import type { OtlpSpan } from '../../src/model/otlp/span.ts';
import { onOneLine } from './one-line.ts';

/** How every line begins. */
export const OTLP_LINE_START = '{"resourceSpans":';

/**
 * A batch in the form of the Collector's files: one ExportTraceServiceRequest in OTLP's JSON encoding a line.
 * Spans leave as they came, fields that JSON has no name for aside; an event of another format is a span.
 * `observations` names the items that are meant; undefined means all.
 */
export function renderOtlpLine(
  source: SealedBatch,
  observations: readonly Observation[] | undefined,
): Buffer {
  const index = indexOf(source);
  if (index.type !== 'otlp_proto' && index.type !== 'otlp_json') {
    return line(encodeRequest(requestOfSpans(spansOf(source, observations)), 'json'));
  }
  if (index.type === 'otlp_json' && observations === undefined) {
    const text = onOneLine(index.bytes.toString());
    // Any other beginning, a space even, is legal too; it is written anew.
    if (text.startsWith(OTLP_LINE_START)) return line(Buffer.from(text));
  }
  const positions =
    observations === undefined
      ? Array.from({ length: index.count }, (_, i) => i)
      : observations.map((each) => positionOf(source, each.index) ?? -1).filter((at) => at >= 0);
  return line(encodeRequest(requestOf(index, positions), 'json'));
}

function spansOf(source: SealedBatch, given: readonly Observation[] | undefined): OtlpSpan[] {
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
