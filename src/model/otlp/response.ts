import type { Rejection } from '../rejection.ts';

const JSON_TYPE = 'application/json';
/** The longest error message, which lists the first few rejections. */
const MAX_MESSAGE_BYTES = 2048;

/**
 * An ExportTraceServiceResponse: empty if every span was accepted, else with `partial_success`. JSON or protobuf,
 * by `contentType`.
 */
export function renderExportResponse(
  rejections: readonly Rejection[],
  contentType: string,
): Buffer {
  const message = rejections.length === 0 ? '' : messageOf(rejections);
  return renderPartialSuccess('rejectedSpans', rejections.length, message, contentType);
}

/** The answer of any signal: empty without a message, else with `partial_success`. */
export function renderPartialSuccess(
  member: 'rejectedSpans' | 'rejectedDataPoints' | 'rejectedLogRecords',
  rejected: number,
  errorMessage: string,
  contentType: string,
): Buffer {
  const isJson = contentType === JSON_TYPE;
  if (errorMessage === '') return isJson ? Buffer.from('{}') : Buffer.alloc(0);
  if (isJson) {
    return Buffer.from(JSON.stringify({ partialSuccess: { [member]: rejected, errorMessage } }));
  }
  const partialSuccess = Buffer.concat([varintField(1, rejected), textField(2, errorMessage)]);
  return bytesField(1, partialSuccess);
}

/** A google.rpc.Status for a request that is refused with this HTTP status. */
export function renderRpcStatus(httpStatus: number, message: string, contentType: string): Buffer {
  const code = rpcCode(httpStatus);
  const text = bounded(message);
  if (contentType === JSON_TYPE) return Buffer.from(JSON.stringify({ code, message: text }));
  return Buffer.concat([varintField(1, code), textField(2, text)]);
}

/** A google.rpc.Status with a google.rpc.RetryInfo, the time after which the client may retry. */
export function renderRetryStatus(code: number, message: string, retryAfterMs: number): Buffer {
  const milliseconds = Math.ceil(retryAfterMs);
  const delay = Buffer.concat([
    varintField(1, Math.floor(milliseconds / 1000)),
    varintField(2, (milliseconds % 1000) * 1_000_000),
  ]);
  const detail = Buffer.concat([
    textField(1, 'type.googleapis.com/google.rpc.RetryInfo'),
    bytesField(2, bytesField(1, delay)),
  ]);
  return Buffer.concat([
    varintField(1, code),
    textField(2, bounded(message)),
    bytesField(3, detail),
  ]);
}

/** The google.rpc.Code for an HTTP status; 2 (unknown) for a status that tracectl never sends. */
export function rpcCode(httpStatus: number): number {
  return RPC_CODES.get(httpStatus) ?? (httpStatus >= 400 && httpStatus < 500 ? 3 : 2);
}

const RPC_CODES: ReadonlyMap<number, number> = new Map([
  [400, 3],
  [401, 16],
  [402, 8],
  [403, 7],
  [404, 5],
  [405, 12],
  [408, 4],
  [409, 10],
  [413, 3],
  [415, 3],
  [429, 8],
  [503, 14],
]);

/** The first few rejections, in one text. */
export function messageOf(rejections: readonly Pick<Rejection, 'code' | 'reason'>[]): string {
  const lines: string[] = [];
  let bytes = 0;
  for (const { code, reason } of rejections) {
    const line = `${code}: ${reason}`;
    bytes += Buffer.byteLength(line) + 2;
    if (bytes > MAX_MESSAGE_BYTES - 32) break;
    lines.push(line);
  }
  if (lines.length === 0) return bounded(`${rejections[0]?.code}: ${rejections[0]?.reason}`);
  const more = rejections.length - lines.length;
  return more === 0 ? lines.join('; ') : `${lines.join('; ')}; and ${more} more`;
}

/** Cuts the text behind a whole character. */
function bounded(text: string): string {
  const bytes = Buffer.from(text);
  if (bytes.length <= MAX_MESSAGE_BYTES) return bytes.toString();
  let end = MAX_MESSAGE_BYTES;
  while (((bytes[end] ?? 0) & 0xc0) === 0x80) end--;
  return bytes.toString('utf8', 0, end);
}

function varintField(field: number, value: number): Buffer {
  return Buffer.concat([varint(field << 3), varint(value)]);
}

function textField(field: number, text: string): Buffer {
  return bytesField(field, Buffer.from(text));
}

function bytesField(field: number, content: Buffer): Buffer {
  return Buffer.concat([varint((field << 3) | 2), varint(content.length), content]);
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value;
  while (rest > 127) {
    bytes.push((rest & 127) | 128);
    rest >>>= 7;
  }
  bytes.push(rest);
  return Buffer.from(bytes);
}
