import type { LedgerUsage, SealedBatch } from './batch.ts';

/** An answer as it is sent over the wire, kept for replay. */
export type StoredAnswer = {
  readonly status: number;
  readonly contentType: string;
  readonly body: Buffer;
  /** The batch of a `wholeAnswer`. */
  readonly batch?: string;
};

const NO_BODY = Buffer.alloc(0);

/**
 * Represents the answer to a request whose items were all accepted: it is rendered again from the id of its batch. An
 * answer with a result for each item would cost as much as half of the request.
 */
export function wholeAnswer(batch: string): StoredAnswer {
  return { status: 0, contentType: '', body: NO_BODY, batch };
}

/** The id of the batch of a `wholeAnswer`; undefined for another answer. */
export function wholeBatchOf({ status, body, batch }: StoredAnswer): string | undefined {
  if (batch !== undefined) return batch;
  return status === 0 ? body.toString() : undefined;
}

/** The body of an answer as a store keeps it: that of a `wholeAnswer` is the id of its batch. */
export function bodyToKeep({ body, batch }: StoredAnswer): Buffer {
  return batch === undefined ? body : Buffer.from(batch);
}

/** The key of a request without an `Idempotency-Key`. No header may contain a NUL, so no client can name it. */
export function implicitKey(tag: string): string {
  return `\0${tag}`;
}

export function implicitTag(key: string): string {
  return key.slice(1);
}

export function isImplicitKey(key: string): boolean {
  return key.startsWith('\0');
}

/**
 * The key of a request with feedback and without an `Idempotency-Key`. Its answer is kept like that to such a key, because a request whose
 * feedback is stored may have no items. No header may contain this control character either.
 */
export function feedbackKey(implicit: string): string {
  return `\u0001${implicitTag(implicit)}`;
}

/** The answer to a request with an `Idempotency-Key`, or with an implicit key. */
export type KeyedAnswer = StoredAnswer & {
  readonly key: string;
  /** Over route, content type, encoding and body as received; of an implicit key always the same. */
  readonly requestHash: Buffer;
  /** Milliseconds for which the answer is kept, if the key is made of the request itself. */
  readonly keptFor?: number | undefined;
  /**
   * The key is implicit and was not claimed: the store looks for it when it appends the batch, and throws
   * `RepeatedRequest` if it has an answer.
   */
  readonly isUnclaimed?: boolean | undefined;
};

/** The claim of a request on its `Idempotency-Key`, or on its implicit key. */
export type AnswerClaim = Pick<KeyedAnswer, 'key' | 'requestHash' | 'keptFor' | 'isUnclaimed'> & {
  /** Renders the answer; called once, when the batch is sealed. */
  render(batch: SealedBatch): StoredAnswer;
};

/**
 * The request behind a batch while its client waits. It is passed beside the batch and never stored with it:
 * a batch that comes out of a queue has no request.
 */
export type RequestContext = {
  /**
   * Aborted when the request's deadline passes: its client was answered 503 by then. A store that has not made
   * the batch durable yet gives it up.
   */
  readonly signal: AbortSignal;
  readonly claim: AnswerClaim | undefined;
  /** Reserves memory for more bytes that the request holds. Throws a `Refusal` (503) if there is no room. */
  reserve(bytes: number): void;
  /** Stores the parts of the request that are not in the bytes of the batch, before anything gets the batch, which may have no items. */
  readonly storeBeside: ((batch: SealedBatch) => Promise<void>) | undefined;
  /** The answer to be kept in the transaction of the batch; set when the batch is sealed, if there is a claim. */
  answer: KeyedAnswer | undefined;
  /** Set by the processor that limits usage; the sealed batch has the same usage. */
  reserved: LedgerUsage | undefined;
  /** Set by a store that wrote the usage entry in the transaction of the batch. */
  isUsageEntered: boolean;
};

/** The signal of a request without a deadline. */
export const NEVER_ABORTED: AbortSignal = new AbortController().signal;

/** Without a deadline, a claim, a bound on memory and attachments, unless they are given. */
export function requestContext(
  given: Partial<Pick<RequestContext, 'signal' | 'claim' | 'reserve' | 'storeBeside'>> = {},
): RequestContext {
  return {
    signal: given.signal ?? NEVER_ABORTED,
    claim: given.claim,
    reserve: given.reserve ?? unbounded,
    storeBeside: given.storeBeside,
    answer: undefined,
    reserved: undefined,
    isUsageEntered: false,
  };
}

function unbounded(): void {}
