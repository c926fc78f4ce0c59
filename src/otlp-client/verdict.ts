import { readExportResponse, readStatusMessage } from '../model/otlp/read-response.ts';
import { answerTo, type ClientConfig } from './config.ts';
import type { Reply } from './transport.ts';

/** What an answer means for the spans that were sent. */
export type Verdict =
  | { readonly kind: 'delivered'; readonly warning?: string }
  | { readonly kind: 'partial'; readonly rejected: number; readonly message: string }
  | { readonly kind: 'retry'; readonly message: string; readonly retryAfterMs: number | undefined }
  /** Wait until somebody has mended the configuration, here or there. */
  | { readonly kind: 'hold'; readonly status: number; readonly message: string }
  | { readonly kind: 'too_large'; readonly message: string }
  | { readonly kind: 'permanent'; readonly code: string; readonly message: string };

/** OTLP: exactly these may be tried again. */
const RETRYABLE: readonly number[] = [429, 502, 503, 504];
const MAX_MESSAGE = 300;
/** A destination that asks for more is asked again all the same. */
const MAX_RETRY_AFTER_MS = 3_600_000;

export async function verdictOn(reply: Reply, config: ClientConfig, now: number): Promise<Verdict> {
  const { status } = reply;
  if (status >= 200 && status < 300) return verdictOnSuccess(reply);
  const message = messageOf(reply);
  if (RETRYABLE.includes(status)) {
    return { kind: 'retry', message, retryAfterMs: retryAfterMs(reply.retryAfter, now) };
  }
  if (status === 413 && config.on_permanent_error['413'] === undefined) {
    return { kind: 'too_large', message };
  }
  switch (answerTo(status, config)) {
    case 'hold':
      return { kind: 'hold', status, message };
    case 'retry':
      return { kind: 'retry', message, retryAfterMs: retryAfterMs(reply.retryAfter, now) };
    case 'dead_letter':
      return { kind: 'permanent', code: 'destination_refused', message };
  }
}

async function verdictOnSuccess({ contentType, body, isCut }: Reply): Promise<Verdict> {
  const isJson = contentType === 'application/json';
  // What is neither comes from something that is not asked to speak OTLP back.
  if (!isJson && contentType !== 'application/x-protobuf') return { kind: 'delivered' };
  if (isCut) {
    return {
      kind: 'permanent',
      code: 'invalid_response',
      message: 'the answer is larger than 4 MiB',
    };
  }
  const answer = await readExportResponse(body, isJson);
  if (answer === undefined) {
    return {
      kind: 'permanent',
      code: 'invalid_response',
      message: 'the answer is no ExportTraceServiceResponse',
    };
  }
  const message = bounded(answer.errorMessage);
  if (answer.rejectedSpans > 0) {
    return { kind: 'partial', rejected: answer.rejectedSpans, message };
  }
  return message === '' ? { kind: 'delivered' } : { kind: 'delivered', warning: message };
}

function messageOf({ status, contentType, body }: Reply): string {
  const isJson = contentType === 'application/json';
  const isStatus = isJson || contentType === 'application/x-protobuf';
  const said = isStatus
    ? readStatusMessage(body, isJson)
    : contentType.startsWith('text/plain')
      ? body.toString()
      : undefined;
  const text = bounded(said?.trim() ?? '');
  return text === '' ? `answered ${status}` : `answered ${status}: ${text}`;
}

function bounded(text: string): string {
  const line = text.replaceAll(/\p{C}+/gu, ' ');
  return line.length > MAX_MESSAGE ? `${line.slice(0, MAX_MESSAGE)}…` : line;
}

/** Seconds, or one of HTTP's dates. */
export function retryAfterMs(header: string | undefined, now: number): number | undefined {
  if (header === undefined) return undefined;
  const text = header.trim();
  if (/^\d{1,9}$/.test(text)) return Math.min(Number(text) * 1000, MAX_RETRY_AFTER_MS);
  const date = /^[A-Z][a-z]{2,8},? /.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(date) ? undefined : Math.min(Math.max(0, date - now), MAX_RETRY_AFTER_MS);
}
