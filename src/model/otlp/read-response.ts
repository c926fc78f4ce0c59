import { WireReader } from './wire.ts';

/** The partial success of an ExportTraceServiceResponse; `rejectedSpans` is 0 if every span was accepted. */
export type PartialSuccess = { readonly rejectedSpans: number; readonly errorMessage: string };

const NOTHING_REJECTED: PartialSuccess = { rejectedSpans: 0, errorMessage: '' };

/**
 * Reads the body of a response with status 200; undefined if it is no ExportTraceServiceResponse. The body
 * comes from outside, so every value is checked. OpenTelemetry's deserializers are loaded with the first
 * body: most destinations answer a full success with an empty one, which needs no reader.
 */
export async function readExportResponse(
  body: Buffer,
  isJson: boolean,
): Promise<PartialSuccess | undefined> {
  // The package accepts a fixed-size field that is cut off.
  if (!isJson && !isSound(body, 0, body.length)) return undefined;
  const { JsonTraceSerializer, ProtobufTraceSerializer } = await import(
    '@opentelemetry/otlp-transformer'
  );
  try {
    const serializer = isJson ? JsonTraceSerializer : ProtobufTraceSerializer;
    const response: unknown = serializer.deserializeResponse(body);
    if (!isRecord(response) || (isJson && isMalformed(response, body))) return undefined;
    const { partialSuccess } = response;
    return isRecord(partialSuccess) ? partialSuccessOf(partialSuccess) : NOTHING_REJECTED;
  } catch {
    return undefined;
  }
}

/** The package reads malformed JSON as an empty response, and only logs the error. */
function isMalformed(response: Record<string, unknown>, body: Buffer): boolean {
  return Object.keys(response).length === 0 && !/^(\{\s*\})?$/.test(body.toString().trim());
}

/** A count is text in JSON, a number in protobuf; one that is not positive or not exact counts as none. */
function partialSuccessOf({
  rejectedSpans,
  errorMessage,
}: Record<string, unknown>): PartialSuccess {
  const count = Number(rejectedSpans ?? 0);
  return {
    rejectedSpans: Number.isSafeInteger(count) && count > 0 ? count : 0,
    errorMessage: String(errorMessage ?? ''),
  };
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The message of a google.rpc.Status; undefined if the body is none. OpenTelemetry's packages read no such body. */
export function readStatusMessage(body: Buffer, isJson: boolean): string | undefined {
  try {
    if (isJson) {
      const { message } = JSON.parse(body.toString()) as { message?: unknown };
      return typeof message === 'string' ? message : undefined;
    }
    if (!isSound(body, 0, body.length)) return undefined;
    const reader = new WireReader(body, 0, body.length);
    for (let tag = reader.nextTag(); tag !== 0; tag = reader.nextTag()) {
      if (tag === 18) return reader.text();
      reader.skip();
    }
  } catch {
    // A body that cannot be read has no message.
  }
  return undefined;
}

/** Whether a range holds whole fields: the reader itself checks no bounds. */
function isSound(bytes: Buffer, start: number, end: number): boolean {
  let at = start;
  while (at < end) {
    const tag = varintAt(bytes, at, end);
    if (tag === undefined || tag.value < 8) return false;
    const size = sizeOf(bytes, tag.next, end, tag.value % 8);
    if (size === undefined || tag.next + size > end) return false;
    at = tag.next + size;
  }
  return true;
}

function sizeOf(bytes: Buffer, at: number, end: number, wireType: number): number | undefined {
  if (wireType === 1) return 8;
  if (wireType === 5) return 4;
  const varint = varintAt(bytes, at, end);
  if (varint === undefined) return undefined;
  if (wireType === 0) return varint.next - at;
  return wireType === 2 ? varint.next - at + varint.value : undefined;
}

function varintAt(
  bytes: Buffer,
  start: number,
  end: number,
): { value: number; next: number } | undefined {
  let value = 0;
  let scale = 1;
  for (let at = start; at < Math.min(end, start + 10); at++) {
    const byte = bytes[at] ?? 0;
    value += (byte & 127) * scale;
    if (byte < 128) return { value, next: at + 1 };
    scale *= 128;
  }
  return undefined;
}
