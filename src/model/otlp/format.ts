import type { OtlpIndex } from '../batch-index.ts';
import { PermanentError } from '../errors.ts';
import type { FormatModule, ItemHead } from '../format-module.ts';
import { encodeJsonText, spliceJson } from '../json/edit.ts';
import type { Payload, PayloadField } from '../observation.ts';
import { sharedResource, sharedScope, spanAt, spanField } from './context.ts';
import { cutJson, cutProto } from './cut.ts';
import { eraseJson, eraseProto } from './erase.ts';
import { OtlpField } from './fields.ts';
import { headOfSpan } from './head.ts';
import { scanJson } from './json-scan.ts';
import { jsonTexts, sharedJsonTexts } from './json-texts.ts';
import { observeJson } from './observe-json.ts';
import { beginningsInProto, observeProto } from './observe-proto.ts';
import { payloadOfSpan } from './payload.ts';
import { reparentSpan } from './reparent.ts';
import { scanProto } from './scan.ts';
import { sourceOfSpan } from './source.ts';
import { spliceWire } from './wire-splice.ts';
import { sharedWireTexts, wireTexts } from './wire-texts.ts';

/** OTLP in protobuf. The accept path needs only the index; see `scanProto`. */
export const otlpProto: FormatModule<OtlpIndex> = {
  scan: scanProto,
  itemId,
  usageBytes,
  cut: cutProto,
  erase: eraseProto,
  observe: (index, position, requestIndex) => {
    checkIds(index, position);
    return observeProto(index, position, requestIndex);
  },
  beginnings: beginningsInProto,
  payload,
  source: sourceOfSpan,
  texts: wireTexts,
  sharedTexts: sharedWireTexts,
  head,
  encodeText: (text) => Buffer.from(text),
  splice: spliceWire,
  reparent: reparentSpan,
};

/** OTLP in JSON. */
export const otlpJson: FormatModule<OtlpIndex> = {
  scan: scanJson,
  itemId,
  usageBytes,
  cut: cutJson,
  erase: eraseJson,
  observe: (index, position, requestIndex) => {
    checkIds(index, position);
    return observeJson(index, position, requestIndex);
  },
  payload,
  source: sourceOfSpan,
  texts: jsonTexts,
  sharedTexts: sharedJsonTexts,
  head,
  encodeText: encodeJsonText,
  splice: spliceJson,
  reparent: reparentSpan,
};

function head(index: OtlpIndex, position: number): ItemHead {
  return headOfSpan(index, position, itemId(index, position));
}

/** The validation processor rejects spans without valid ids; not every pipeline has one. */
function checkIds(index: OtlpIndex, position: number): void {
  const hasIds =
    spanField(index, position, OtlpField.TRACE_ID) !== 0 &&
    spanField(index, position, OtlpField.SPAN_ID) !== 0;
  if (!hasIds) {
    throw new PermanentError('invalid_span', 'A span has no valid trace id and span id.');
  }
}

/** `<trace id>:<span id>`; undefined if one of them is invalid. */
function itemId(index: OtlpIndex, position: number): string | undefined {
  const traceId = spanField(index, position, OtlpField.TRACE_ID);
  const spanId = spanField(index, position, OtlpField.SPAN_ID);
  if (traceId === 0 || spanId === 0) return undefined;
  const { bytes } = index;
  if (index.type === 'otlp_proto') {
    return `${bytes.toString('hex', traceId, traceId + 16)}:${bytes.toString('hex', spanId, spanId + 8)}`;
  }
  const digits = `${bytes.toString('latin1', traceId, traceId + 32)}:${bytes.toString('latin1', spanId, spanId + 16)}`;
  return digits.toLowerCase();
}

/** Bytes of attributes and events: as received for protobuf, of compact JSON for JSON. */
function usageBytes(index: OtlpIndex, position: number): number {
  return (
    spanField(index, position, OtlpField.ATTRIBUTE_BYTES) +
    spanField(index, position, OtlpField.EVENT_BYTES)
  );
}

function payload(index: OtlpIndex, position: number, fields: readonly PayloadField[]): Payload {
  const context = {
    span: spanAt(index, position),
    resource: sharedResource(index, spanField(index, position, OtlpField.RESOURCE)),
    scope: sharedScope(index, spanField(index, position, OtlpField.SCOPE)),
  };
  return payloadOfSpan(context, fields);
}
