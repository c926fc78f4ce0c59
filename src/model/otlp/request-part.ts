import type { OtlpIndex } from '../batch-index.ts';
import { resourceField } from './context.ts';
import { cutJson, cutProto } from './cut.ts';
import { decodeSpansAt, encodeOtlp } from './encode.ts';
import { RESOURCE_STRIDE, ResourceField } from './fields.ts';
import { scanJson } from './json-scan.ts';
import { scanProto } from './scan.ts';
import { varintBytes } from './wire.ts';

export type OtlpEncoding = 'proto' | 'json';

/**
 * The spans at these positions as a part of an ExportTraceServiceRequest: `ResourceSpans` messages, or JSON objects with commas
 * between them. In the encoding that came, they are the bytes that came, with fields that are unknown here; in the other one they have
 * every known field.
 */
export function requestPart(
  index: OtlpIndex,
  positions: readonly number[],
  encoding: OtlpEncoding,
): Buffer {
  if (index.type === 'otlp_proto' && encoding === 'proto') {
    return resourcesOf(scanProto(cutProto(index, positions), LIMITS));
  }
  if (index.type === 'otlp_json' && encoding === 'json') {
    return resourcesOf(scanJson(cutJson(index, positions), LIMITS));
  }
  const request = encodeOtlp(decodeSpansAt(index, positions), encoding);
  return encoding === 'json' ? resourceSpansIn(request) : request;
}

/** The `resourceSpans` of a request that this process wrote as JSON, without the brackets. */
export function resourceSpansIn(request: Buffer): Buffer {
  if (request.toString('latin1', 0, REQUEST_OPEN.length) !== REQUEST_OPEN) {
    throw new Error('the request has another form');
  }
  return request.subarray(REQUEST_OPEN.length, request.length - REQUEST_CLOSE.length);
}

/** The body was within its limits before. */
const LIMITS = { maxItems: Number.MAX_SAFE_INTEGER, maxDepth: 1024 };

/** The start and the end of a request in JSON. */
export const REQUEST_OPEN = '{"resourceSpans":[';
export const REQUEST_CLOSE = ']}';

/** The resources that have spans. Cutting leaves others too, which have no record. */
function resourcesOf(index: OtlpIndex): Buffer {
  const parts: Buffer[] = [];
  for (let resource = 0; resource * RESOURCE_STRIDE < index.resources.length; resource++) {
    const start = resourceField(index, resource, ResourceField.START);
    const bytes = index.bytes.subarray(start, resourceField(index, resource, ResourceField.END));
    if (index.type === 'otlp_proto') parts.push(RESOURCE_SPANS, varintBytes(bytes.length), bytes);
    else parts.push(...(parts.length === 0 ? [bytes] : [COMMA, bytes]));
  }
  return Buffer.concat(parts);
}

/** The tag of the field `resource_spans`. */
const RESOURCE_SPANS = Buffer.of(10);
const COMMA = Buffer.from(',');
