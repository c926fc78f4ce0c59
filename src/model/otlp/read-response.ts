import { WireReader } from './wire.ts';

/** What an ExportTraceServiceResponse says beside success. */
export type PartialSuccess = { readonly rejectedSpans: number; readonly errorMessage: string };

/**
 * The partial success in an answer, `rejectedSpans` 0 where there is none. Undefined where the body is no
 * such answer: it comes from outside, so nothing of it is taken on trust.
 */
export function readExportResponse(body: Buffer, isJson: boolean): PartialSuccess | undefined {
  try {
    return isJson ? readJsonResponse(body) : readProtoResponse(body);
  } catch {
    return undefined;
  }
}

/** The message of a google.rpc.Status; undefined where the body is none. */
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
    // Said by the answer below.
  }
  return undefined;
}

function readJsonResponse(body: Buffer): PartialSuccess | undefined {
  const text = body.toString().trim();
  if (text === '') return { rejectedSpans: 0, errorMessage: '' };
  const value = JSON.parse(text) as { partialSuccess?: Record<string, unknown> | null } | null;
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
  const { rejectedSpans = 0, errorMessage = '' } = value.partialSuccess ?? {};
  return { rejectedSpans: countOf(Number(rejectedSpans)), errorMessage: String(errorMessage) };
}

function readProtoResponse(body: Buffer): PartialSuccess | undefined {
  if (!isSound(body, 0, body.length)) return undefined;
  let rejectedSpans = 0;
  let errorMessage = '';
  const reader = new WireReader(body, 0, body.length);
  for (let tag = reader.nextTag(); tag !== 0; tag = reader.nextTag()) {
    if (tag !== 10) {
      reader.skip();
      continue;
    }
    const partial = reader.message();
    if (!isSound(body, partial.start, partial.end)) return undefined;
    for (let inner = partial.nextTag(); inner !== 0; inner = partial.nextTag()) {
      if (inner === 8) rejectedSpans = countOf(partial.varint());
      else if (inner === 18) errorMessage = partial.text();
      else partial.skip();
    }
  }
  return { rejectedSpans, errorMessage };
}

function countOf(value: number): number {
  return Number.isSafeInteger(value) && value > 0 ? value : 0;
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
