import type { Refusal } from '../model/errors.ts';
import { renderRetryStatus, rpcCode } from '../model/otlp/response.ts';

/** The status of a refused call. */
export type RefusedStatus = {
  readonly code: number;
  readonly details: string;
  /** A google.rpc.Status with a RetryInfo (when to retry), for `grpc-status-details-bin`. */
  readonly statusDetails: Buffer | undefined;
};

/** Characters of a status message, which is sent in a header. */
const MAX_DETAILS = 1024;
/** Statuses with a retry. Without a RetryInfo, clients treat RESOURCE_EXHAUSTED as final. */
const RETRYABLE: ReadonlySet<number> = new Set([408, 409, 429, 503]);

export function grpcStatusOf(refusal: Refusal): RefusedStatus {
  const { status, message, retryAfterMs } = refusal;
  const code = refusal.code === 'unsupported_encoding' ? 12 : rpcCode(status);
  const details = message.slice(0, MAX_DETAILS).toWellFormed();
  const isRetryable = RETRYABLE.has(status) && retryAfterMs !== undefined;
  const statusDetails = isRetryable ? renderRetryStatus(code, details, retryAfterMs) : undefined;
  return { code, details, statusDetails };
}
