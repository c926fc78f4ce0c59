import { hash } from 'node:crypto';
import type { IdempotencyLedger, Pipeline, RequestHead } from '../component/component.ts';
import type { Tenant } from '../model/batch.ts';
import { Refusal, sameInProgress } from '../model/errors.ts';
import type { AnswerClaim, StoredAnswer } from '../model/request-context.ts';
import { feedbackKey, implicitKey } from '../model/request-context.ts';
import type { Repeats } from './repeats.ts';
import { requestTypeOf, tagOf } from './repeats.ts';

/**
 * The claim of a request on the answer to its key, so that a repetition gets that answer and counts nothing:
 *
 *   Idempotency-Key ───────────────────────▶ claimed here, before the body is scanned
 *   none ─▶ an implicit key, of the bytes ─┬▶ claimed here, if several exporters get the batch, or the request has feedback
 *                                          └▶ left to the store, which looks for it when it appends the batch (`isUnclaimed`)
 */
export type RequestClaim = Omit<AnswerClaim, 'render'>;

type Repeating = { readonly pipeline: Pipeline; readonly repeats: Repeats | undefined };

/** The `Idempotency-Key` of a request; undefined if it has none. */
export function idempotencyKey(head: RequestHead, pipeline: Pipeline): string | undefined {
  const values = head.headers.get('idempotency-key');
  if (values === undefined) return undefined;
  const key = values[0] ?? '';
  if (values.length > 1 || key.length === 0 || key.length > 255) {
    throw new Refusal('invalid_request', 'Idempotency-Key takes one value of 1 to 255 characters.');
  }
  if (pipeline.idempotency === undefined) {
    throw new Refusal(
      'invalid_request',
      'Idempotency-Key is not supported here: no component behind this endpoint keeps answers.',
    );
  }
  return key;
}

/** The claim of a request with this key. */
export function explicitClaim(key: string, head: RequestHead, body: Buffer): RequestClaim {
  return { key, requestHash: hashRequest(head, hash('sha256', body, 'hex')) };
}

/** SHA-256 over route, content type, encoding and the hash of the body, which represents it without a copy. */
function hashRequest(head: RequestHead, bodyHash: string): Buffer {
  const { method, path, contentType, encoding } = requestTypeOf(head);
  return hash('sha256', JSON.stringify([method, path, contentType, encoding, bodyHash]), 'buffer');
}

/**
 * The claim of a request without an `Idempotency-Key`; undefined if its repetition is not recognized. A single exporter looks for the key
 * when it appends the batch; several would each take the batch before one of them looks.
 */
export function implicitClaim(
  { pipeline, repeats }: Repeating,
  { projectId }: Tenant,
  head: RequestHead,
  body: Buffer,
): RequestClaim | undefined {
  if (pipeline.idempotency === undefined) return undefined;
  if (!repeats?.admit(projectId, head.receivedAt)) return undefined;
  return {
    key: implicitKey(tagOf(requestTypeOf(head), body)),
    requestHash: IMPLICIT_HASH,
    keptFor: repeats.window,
    isUnclaimed: pipeline.branches.length === 1,
  };
}

/** The key alone tells requests apart. */
const IMPLICIT_HASH = Buffer.alloc(16);

/** Feedback is stored before the batch is appended, where a store recognizes a request without a claim: so the request claims its key. */
export function claimWithFeedback(implicit: RequestClaim): RequestClaim {
  return { ...implicit, key: feedbackKey(implicit.key), isUnclaimed: false };
}

/** `earlier` is the answer to give at once. Without it, this request is the first with its key, and has it until `release`. */
type Claimed = {
  readonly earlier?: StoredAnswer;
  readonly release?: () => void;
};

/** Throws a `Refusal` if another request has the key. */
export async function claimKey(
  ledger: IdempotencyLedger | undefined,
  tenant: Tenant,
  { key, requestHash, keptFor }: RequestClaim,
): Promise<Claimed> {
  const claimed = await ledger?.claim(tenant, key, requestHash, keptFor);
  switch (claimed?.state) {
    case 'new':
      return { release: () => claimed.release() };
    case 'replay':
      return { earlier: claimed.answer };
    case 'conflict':
      throw new Refusal(
        'idempotency_conflict',
        'This Idempotency-Key was used for another request. Use a new key for each request.',
      );
    case 'in_progress':
      if (keptFor !== undefined) throw sameInProgress();
      throw new Refusal(
        'idempotency_in_progress',
        'A request with this Idempotency-Key is in progress.',
        { retryAfterMs: 1000 },
      );
    default:
      return {};
  }
}
