import { readExportResponse, readStatusMessage } from '../model/otlp/read-response.ts';
import type { RequestBody } from './body.ts';
import { actionFor, type ClientConfig } from './config.ts';
import type { ClientResponse } from './transport.ts';

/** The meaning of a response for the spans of its request. */
export type ResponseVerdict =
  | { readonly kind: 'delivered'; readonly warning?: string }
  | { readonly kind: 'partial'; readonly rejected: number; readonly message: string }
  | { readonly kind: 'retry'; readonly message: string; readonly retryAfterMs: number | undefined }
  /** Wait until an operator corrects the configuration of the client or the destination. */
  | { readonly kind: 'hold'; readonly status: number; readonly message: string }
  | { readonly kind: 'too_large'; readonly message: string }
  | { readonly kind: 'permanent'; readonly code: string; readonly message: string };

/** The only statuses that OTLP lets a client retry. */
const RETRYABLE: readonly number[] = [429, 502, 503, 504];
const MAX_MESSAGE = 300;
/** A longer Retry-After is shortened to this. */
const MAX_RETRY_AFTER_MS = 3_600_000;

/**
 * `sent` has the headers of the body. `now` is in milliseconds since the epoch, for dates in Retry-After. The verdict needs no wait, unless a success has a body: then a
 * library that reads it may have to be loaded.
 */
export function judgeResponse(
  response: ClientResponse,
  config: ClientConfig,
  sent: RequestBody['headers'],
  now: number,
): ResponseVerdict | Promise<ResponseVerdict> {
  const { status } = response;
  if (status >= 200 && status < 300) return judgeSuccess(response);
  const message = messageOf(response);
  if (RETRYABLE.includes(status)) {
    return { kind: 'retry', message, retryAfterMs: retryAfterMs(response.retryAfter, now) };
  }
  if (status === 413 && config.on_permanent_error['413'] === undefined) {
    return { kind: 'too_large', message };
  }
  const fault = status === 415 ? mediaFault(response, sent) : undefined;
  switch (actionFor(status, config, fault !== undefined)) {
    case 'hold':
      return { kind: 'hold', status, message: fault === undefined ? message : message + fault };
    case 'retry':
      return { kind: 'retry', message, retryAfterMs: retryAfterMs(response.retryAfter, now) };
    case 'dead_letter':
      return { kind: 'permanent', code: 'destination_refused', message };
  }
}

function judgeSuccess({
  status,
  contentType,
  body,
  isTruncated,
}: ClientResponse): ResponseVerdict | Promise<ResponseVerdict> {
  if (contentType === 'text/html' && PAGE.test(body.toString('latin1', 0, PAGE_START))) {
    return { kind: 'hold', status, message: htmlMessage(status) };
  }
  const isJson = contentType === 'application/json';
  // A destination that is no OTLP server, such as a proxy, may answer in any other type.
  if (!isJson && contentType !== 'application/x-protobuf') return { kind: 'delivered' };
  if (isTruncated) return invalid('the response is larger than 4 MiB');
  // An empty body is a success of all spans, in both encodings.
  return body.length === 0 ? { kind: 'delivered' } : judgeAnswer(body, isJson);
}

/** Some frameworks send this type with an empty answer or a word, so the body has to begin with a tag. */
const PAGE = /^(?:\xef\xbb\xbf)?\s*</;
const PAGE_START = 256;

/** A page to sign in on, or of a web server that answers every path: it has stored no span. */
function htmlMessage(status: number): string {
  return `answered ${status} with a page of HTML, which no OTLP server sends: check the address, and proxies in front of it`;
}

async function judgeAnswer(body: Buffer, isJson: boolean): Promise<ResponseVerdict> {
  const answer = await readExportResponse(body, isJson);
  if (answer === undefined) return invalid('the response is no ExportTraceServiceResponse');
  const message = bounded(answer.errorMessage);
  if (answer.rejectedSpans > 0) {
    return { kind: 'partial', rejected: answer.rejectedSpans, message };
  }
  return message === '' ? { kind: 'delivered' } : { kind: 'delivered', warning: message };
}

/**
 * ` (…)`, the setting to correct if a 415 is about every body: its encoding, or protobuf, which is the type of OTLP. Undefined for JSON, which
 * only some clients send.
 */
function mediaFault(
  { acceptEncoding }: ClientResponse,
  sent: RequestBody['headers'],
): string | undefined {
  const encoding = sent['content-encoding'] ?? 'identity';
  if (acceptEncoding !== undefined && !takes(acceptEncoding, encoding)) {
    return ` (it takes ${bounded(acceptEncoding) || 'no compression'}, and not ${encoding}: set compression)`;
  }
  if (sent['content-type'] !== 'application/x-protobuf') return undefined;
  return ` (the body was protobuf in ${encoding}: set compression, or encoding and convert)`;
}

/** Whether an `Accept-Encoding` has the encoding (RFC 9110, 12.5.3). */
function takes(acceptEncoding: string, encoding: string): boolean {
  const weights = new Map<string, boolean>();
  for (const item of acceptEncoding.toLowerCase().split(',')) {
    const [name = '', weight = ''] = item.split(';', 2);
    weights.set(name.trim(), !/^\s*q=0(\.0*)?\s*$/.test(weight));
  }
  return weights.get(encoding) ?? weights.get('*') ?? encoding === 'identity';
}

function invalid(message: string): ResponseVerdict {
  return { kind: 'permanent', code: 'invalid_response', message };
}

function messageOf({ status, contentType, body }: ClientResponse): string {
  const isJson = contentType === 'application/json';
  const isStatus = isJson || contentType === 'application/x-protobuf';
  const sent = isStatus
    ? readStatusMessage(body, isJson)
    : contentType.startsWith('text/plain')
      ? body.toString()
      : undefined;
  const text = bounded(sent?.trim() ?? '');
  return text === '' ? `answered ${status}` : `answered ${status}: ${text}`;
}

/** One line of limited length, for logs and dead letters. */
function bounded(text: string): string {
  const line = text.replaceAll(/\p{C}+/gu, ' ');
  return line.length > MAX_MESSAGE ? `${line.slice(0, MAX_MESSAGE)}…` : line;
}

/** Milliseconds until `Retry-After`, which is a number of seconds or a date. */
export function retryAfterMs(header: string | undefined, now: number): number | undefined {
  if (header === undefined) return undefined;
  const text = header.trim();
  if (/^\d{1,9}$/.test(text)) return Math.min(Number(text) * 1000, MAX_RETRY_AFTER_MS);
  const date = /^[A-Z][a-z]{2,8},? /.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(date) ? undefined : Math.min(Math.max(0, date - now), MAX_RETRY_AFTER_MS);
}
