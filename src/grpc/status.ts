import type { Refusal } from '../model/errors.ts';
import { renderRetryStatus, rpcCode } from '../model/otlp/response.ts';

/** How a call ends that is refused. */
export type RefusedStatus = {
  readonly code: number;
  readonly details: string;
  /** A google.rpc.Status with a RetryInfo, for `grpc-status-details-bin`: when to try again. */
  readonly statusDetails: Buffer | undefined;
};

/** Bytes of a status message; it travels in a header. */
const MAX_DETAILS = 1024;
/** Where trying again helps: without a RetryInfo a client takes RESOURCE_EXHAUSTED for final. */
const RETRYABLE: ReadonlySet<number> = new Set([408, 409, 429, 503]);

export function grpcStatusOf(refusal: Refusal): RefusedStatus {
  const { status, message, retryAfterMs } = refusal;
  const code = refusal.code === 'unsupported_encoding' ? 12 : rpcCode(status);
  const details = message.slice(0, MAX_DETAILS).toWellFormed();
  const isRetryable = RETRYABLE.has(status) && retryAfterMs !== undefined;
  const statusDetails = isRetryable ? renderRetryStatus(code, details, retryAfterMs) : undefined;
  return { code, details, statusDetails };
}
