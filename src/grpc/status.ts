import type { Refusal, RefusalCode } from '../model/errors.ts';
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

/** UNIMPLEMENTED, and ALREADY_EXISTS: exporters repeat ABORTED, which is the code of other conflicts, without an end. */
const OWN_CODES: ReadonlyMap<RefusalCode, number> = new Map([
  ['unsupported_encoding', 12],
  ['idempotency_conflict', 6],
]);

export function grpcStatusOf(refusal: Refusal): RefusedStatus {
  const { status, message, retryAfterMs } = refusal;
  const code = OWN_CODES.get(refusal.code) ?? rpcCode(status);
  const details = message.slice(0, MAX_DETAILS).toWellFormed();
  const isRetryable = RETRYABLE.has(status) && retryAfterMs !== undefined;
  const statusDetails = isRetryable ? renderRetryStatus(code, details, retryAfterMs) : undefined;
  return { code, details, statusDetails };
}
