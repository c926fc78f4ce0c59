import { findOffer } from '../component/capability.ts';
import type {
  Admission,
  Clock,
  Counter,
  Logger,
  Pipeline,
  RequestHead,
} from '../component/component.ts';
import type { AttachmentLimits } from '../model/attachments.ts';
import type { Format, ReceivedBatch, SealedBatch, SentEncoding, Tenant } from '../model/batch.ts';
import type { BatchIndex } from '../model/batch-index.ts';
import { Refusal, RepeatedRequest, refusalOf } from '../model/errors.ts';
import { endRequest, freeInflated, MAX_BODY_BYTES } from '../model/formats.ts';
import { inflatedSizeHint } from '../model/inflate.ts';
import type { StoredAnswer } from '../model/request-context.ts';
import { requestContext, wholeAnswer, wholeBatchOf } from '../model/request-context.ts';
import { seal } from '../model/seal.ts';
import { ulid } from '../model/ulid.ts';
import { reject } from '../model/verbs.ts';
import type { Store } from '../store/store.ts';
import { STORE } from '../store/store.ts';
import type { Beside } from './beside.ts';
import { besideOf } from './beside.ts';
import { ClientGone, reserveFirst } from './body.ts';
import type { ByteReservation, BytesInFlight } from './bytes-in-flight.ts';
import { clientOf } from './bytes-in-flight.ts';
import type { Answer } from './exchange.ts';
import type { FaultLog } from './fault-log.ts';
import type { FeedbackIntake } from './feedback.ts';
import type { KeptAnswers } from './kept-answers.ts';
import type { Preparation, Prepared } from './prepare.ts';
import { logRefusal, logRejections } from './rejection-log.ts';
import type { Repeats } from './repeats.ts';
import type { RequestClaim } from './request-claim.ts';
import {
  claimKey,
  claimWithFeedback,
  explicitClaim,
  idempotencyKey,
  implicitClaim,
} from './request-claim.ts';
import type { RequestDeadline } from './request-deadline.ts';
import { requestDeadline } from './request-deadline.ts';
import type { Scanner } from './scan-pool.ts';

/**
 * The path of one ingestion request, the same for every receiver and transport:
 *
 *   head ─▶ admit (key, permission, quota) ─▶ type and encoding ─▶ declared size ─▶ first bytes reserved
 *        ─▶ body, reserved as it arrives ─▶ idempotency ─▶ inflate and scan ─▶ ReceivedBatch
 *        ─▶ pipeline.accept ─▶ answer
 *
 * A refusal at any step is answered in the protocol's shape, and the request releases everything it holds. If
 * admit, idempotency and accept together take longer than the pipeline's `answerWithin`, the client is answered
 * 503 at once. The step in progress then finishes on its own and releases what the request holds.
 */
export type Ingestion = {
  readonly pipeline: Pipeline;
  readonly protocol: Protocol;
  /** The tenant of a receiver with a `project` of its own. */
  readonly fallback: Tenant | undefined;
  readonly bytesInFlight: BytesInFlight;
  readonly scanner: Scanner;
  /** Undefined: a request without an `Idempotency-Key` is accepted as often as it is sent. */
  readonly repeats: Repeats | undefined;
  readonly kept: KeptAnswers;
  /** Undefined: feedback that arrives with runs is left out. */
  readonly feedback: FeedbackIntake | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly faults: FaultLog;
  /** Counts refused requests of every stage, by code. */
  readonly refusals: Counter;
};

/** A request of any transport: its head, the reader of its body, and the ways to answer it. */
export type Incoming = {
  readonly head: RequestHead;
  /** Decoded parts of the path. */
  readonly params: Readonly<Record<string, string>>;
  /**
   * Reads the body into a Buffer that owns its memory, and reserves its bytes as they arrive. `encoding` is that of the head; a gRPC message
   * may be uncompressed all the same. Rejects with a `Refusal`, or with `ClientGone`.
   */
  read(reservation: ByteReservation, encoding: SentEncoding): Promise<ReceivedBody>;
  /** Both answer once. Later calls, and calls after the client has disconnected, have no effect. */
  answer(reply: Answer): void;
  refuse(refusal: Refusal): void;
};

export type ReceivedBody = { readonly body: Buffer; readonly encoding: SentEncoding };

/** The rules of one wire protocol. */
export type Protocol = {
  /** Content type and encoding. Throws a `Refusal` for unsupported ones. */
  checkHead(head: RequestHead): { format: Format; encoding: SentEncoding };
  /** A request with more items is refused. */
  readonly maxItems: number;
  /** Limit of the inflated body in bytes, if it is lower than `MAX_BODY_BYTES`. */
  readonly maxBytes?: number;
  /** Set if the body is one run; `pathId` is its id in the path of an update. */
  singleRun?(incoming: Incoming): { pathId?: string };
  /** Set if the body has runs in parts. Throws a `Refusal` for another content type. */
  multipart?(head: RequestHead): { boundary: string; attachments: AttachmentLimits };
  /** Set if the body has log records, which become spans. */
  readonly logs?: boolean;
  /** Called for an accepted request with the parts of its body that were not used. */
  leftOut?(parts: NonNullable<Prepared['leftOut']> & { readonly feedback: number }): void;
  /** The answer to a request without items. Throws a `Refusal` if that is an error. */
  renderEmpty(head: RequestHead, logs?: Prepared['logs']): Answer;
  /** `index` describes the request before the seal: it still has rejected and dropped items. */
  renderAccepted(
    batch: SealedBatch,
    index: BatchIndex,
    head: RequestHead,
    logs?: Prepared['logs'],
  ): Answer;
};

/** A request in progress, with the resources that it holds until it is answered. */
type RequestInProgress = {
  readonly incoming: Incoming;
  readonly ingestion: Ingestion;
  readonly deadline: RequestDeadline;
  admission: Admission | undefined;
  /** Of bytes in flight. */
  reservation: ByteReservation | undefined;
  releaseClaim: (() => void) | undefined;
};

/** The answer to a request; `accepted` is its batch, if it was accepted. */
type Outcome = { readonly answer: Answer; readonly accepted?: SealedBatch };

/** The deadline passed and the client was answered: the remaining steps are skipped. */
class DeadlinePassed extends Error {}

export async function ingest(incoming: Incoming, ingestion: Ingestion): Promise<void> {
  const { head } = incoming;
  const { pipeline, clock, faults } = ingestion;
  const deadline = requestDeadline(pipeline.answerWithin, clock, () => {
    refuse(work, tooSlow());
    faults.late(head);
  });
  const work: RequestInProgress = {
    incoming,
    ingestion,
    deadline,
    admission: undefined,
    reservation: undefined,
    releaseClaim: undefined,
  };
  try {
    const { answer, accepted } = await take(work);
    incoming.answer(answer);
    if (accepted !== undefined) logRejections(pipeline, head, accepted);
  } catch (error) {
    if (error instanceof ClientGone || error instanceof DeadlinePassed) return;
    faults.failed(error, head);
    if (!deadline.signal.aborted) refuse(work, refusalOf(error));
  } finally {
    work.releaseClaim?.();
    work.reservation?.release();
    work.admission?.release();
  }
}

function tooSlow(): Refusal {
  const message = 'The data could not be made safe in time. Try again.';
  return new Refusal('unavailable', message, { retryAfterMs: 1000 });
}

function stopIfPassed({ signal }: RequestDeadline): void {
  if (signal.aborted) throw new DeadlinePassed('the request was answered when its deadline passed');
}

function refuse({ incoming, ingestion, admission }: RequestInProgress, refusal: Refusal): void {
  const { pipeline, refusals } = ingestion;
  incoming.refuse(refusal);
  refusals.add(1, { code: refusal.code });
  logRefusal(pipeline, incoming.head, admission?.tenant ?? refusal.tenant, refusal);
}

async function take(work: RequestInProgress): Promise<Outcome> {
  const { incoming, ingestion, deadline } = work;
  const { head } = incoming;
  const { pipeline, protocol } = ingestion;
  const admission = await deadline.wait(pipeline.admit(head, ingestion.fallback));
  work.admission = admission;
  stopIfPassed(deadline);
  const named = protocol.checkHead(head);
  const key = idempotencyKey(head, pipeline);
  const reservation = ingestion.bytesInFlight.open(
    clientOf(head, admission.tenant, ingestion.fallback),
  );
  work.reservation = reservation;
  const reserving = reserveFirst(reservation, head.declaredBytes, named.encoding);
  if (reserving !== undefined) await reserving;
  const { body, encoding } = await incoming.read(reservation, named.encoding);

  let claim: RequestClaim | undefined =
    key === undefined
      ? implicitClaim(ingestion, admission.tenant, head, body)
      : explicitClaim(key, head, body);
  let earlier = await earlierAnswer(work, admission.tenant, claim);
  if (earlier !== undefined && wholeBatchOf(earlier) === undefined) return { answer: earlier };

  const store = storeBeside(ingestion);
  const wanted = preparation(protocol, incoming, named.format, encoding, store !== undefined);
  const { projectId } = admission.tenant;
  const scan = () => ingestion.scanner.prepare(body, wanted, projectId);
  const preparing = prepareWithin(reservation, scan, body, wanted);
  const prepared = preparing instanceof Promise ? await preparing : preparing;
  stopIfPassed(deadline);
  const beside = besideOf(ingestion, store, admission.tenant, prepared);
  if (earlier === undefined && claim?.keptFor !== undefined && beside.feedback !== undefined) {
    work.releaseClaim?.();
    work.releaseClaim = undefined;
    claim = claimWithFeedback(claim);
    earlier = await earlierAnswer(work, admission.tenant, claim);
  }
  if (earlier !== undefined) return { answer: answerAgain(work, earlier, prepared) };
  if (prepared.index.count === 0 && beside.feedback === undefined) {
    noteLeftOut(protocol, prepared, beside);
    if (prepared.feedback?.length) throw new Refusal('no_event_accepted', NO_STORE_OF_FEEDBACK);
    return { answer: protocol.renderEmpty(head, prepared.logs) };
  }
  const batch = receivedBatch(head, admission.tenant, prepared);
  for (const { item, code, reason, path } of prepared.faults ?? []) {
    reject(batch, item, code, reason, path);
  }
  const outcome = await accept(work, { batch, claim, beside, logs: prepared.logs });
  noteLeftOut(protocol, prepared, beside);
  return outcome;
}

function preparation(
  { maxItems, maxBytes, singleRun, multipart, logs }: Protocol,
  incoming: Incoming,
  format: Format,
  encoding: SentEncoding,
  takesAttachments: boolean,
): Preparation {
  const run = singleRun?.(incoming);
  const parts = multipart?.(incoming.head);
  return {
    ...{ format, encoding, maxItems, judges: true },
    ...(maxBytes === undefined ? {} : { maxBytes }),
    ...(run === undefined ? {} : { singleRun: run }),
    ...(parts === undefined
      ? {}
      : { multipart: takesAttachments ? parts : { boundary: parts.boundary } }),
    ...(logs === undefined ? {} : { logs }),
  };
}

const NO_STORE_OF_FEEDBACK =
  'The request has feedback only, which is stored as scores, and no store is named by auth. Send feedback to the daemon that stores the runs.';

/** The answer to a request that has feedback, and no runs. */
const ONLY_FEEDBACK: Answer = { status: 202, contentType: 'application/json', body: '{}' };

function noteLeftOut(
  protocol: Protocol,
  { leftOut, feedback = [] }: Prepared,
  beside: Beside,
): void {
  if (leftOut === undefined) return;
  protocol.leftOut?.({ ...leftOut, feedback: feedback.length - (beside.feedback?.stored ?? 0) });
}

/** The store of what a request has beside its items. Undefined if the protocol has nothing like that, or the pipeline no store. */
function storeBeside({ protocol, pipeline }: Ingestion): Store | undefined {
  if (protocol.multipart === undefined) return undefined;
  return findOffer(pipeline.offers, STORE);
}

function receivedBatch(
  { receivedAt }: RequestHead,
  tenant: Tenant,
  { body, encoding, index }: Prepared,
): ReceivedBatch {
  return {
    kind: 'received',
    id: ulid(receivedAt),
    format: index.type,
    tenant,
    receivedAt,
    requestItems: index.count,
    body,
    encoding,
    index,
    items: index.count,
    rejections: [],
    changes: undefined,
  };
}

type ToAccept = {
  readonly batch: ReceivedBatch;
  readonly claim: RequestClaim | undefined;
  readonly beside: Beside;
  readonly logs: Prepared['logs'];
};

/** Passes the batch on and renders its answer once: the answer that is kept is the one that is sent. */
async function accept(
  {
    incoming: { head },
    ingestion: { pipeline, protocol, kept },
    deadline,
    reservation,
  }: RequestInProgress,
  { batch, claim, beside: { attachments, feedback }, logs }: ToAccept,
): Promise<Outcome> {
  let rendered: Answer | undefined;
  let ownSeal: SealedBatch | undefined;
  const isFeedbackOnly = batch.requestItems === 0;
  const render = (sealed: SealedBatch): Answer => {
    rendered ??= isFeedbackOnly
      ? ONLY_FEEDBACK
      : protocol.renderAccepted(sealed, batch.index, head, logs);
    return rendered;
  };
  const renderKept = (sealed: SealedBatch): StoredAnswer => {
    ownSeal = sealed;
    const isWhole = claim?.isUnclaimed === true && sealed.rejections.length === 0;
    if (isWhole) return wholeAnswer(sealed.id);
    const answer = storable(render(sealed));
    kept.admit(sealed, answer.body.length);
    return answer;
  };
  const request = requestContext({
    signal: deadline.signal,
    claim: claim === undefined ? undefined : { ...claim, render: renderKept },
    reserve: (bytes) => reservation?.grow(bytes),
    ...((attachments ?? feedback) && {
      async storeBeside(sealed) {
        await feedback?.store();
        // Throws: then no answer is kept either.
        if (isFeedbackOnly && feedback?.stored === 0) protocol.renderEmpty(head, logs);
        await attachments?.store(sealed);
      },
    }),
  });
  try {
    const accepted = await deadline.wait(pipeline.accept(batch, request));
    const answer = render(accepted);
    freeInflated(accepted);
    endRequest(accepted);
    return { answer, accepted };
  } catch (error) {
    // After any other error the store may have the batch all the same.
    if (error instanceof RepeatedRequest || error instanceof Refusal) await attachments?.release();
    if (!(error instanceof RepeatedRequest)) throw error;
    const id = wholeBatchOf(error.answer);
    if (id === undefined || ownSeal === undefined) return { answer: error.answer };
    // A limit may have rejected items of the repetition; the first request had none.
    const first = { ...ownSeal, id, items: batch.requestItems, rejections: [] };
    return { answer: protocol.renderAccepted(first, batch.index, head, logs) };
  }
}

/** The answer to the request that this one repeats; undefined if this is the first one with its key, or leaves the key to the store. */
async function earlierAnswer(
  work: RequestInProgress,
  tenant: Tenant,
  claim: RequestClaim | undefined,
): Promise<StoredAnswer | undefined> {
  if (claim === undefined || claim.isUnclaimed === true) return undefined;
  const { deadline, ingestion } = work;
  const claiming = claimKey(ingestion.pipeline.idempotency, tenant, claim);
  const { earlier, release } = await deadline.wait(claiming);
  work.releaseClaim = release;
  stopIfPassed(deadline);
  return earlier;
}

/** An earlier answer as it was sent. A request that was not claimed may have kept a `wholeAnswer`. */
function answerAgain(
  { incoming: { head }, ingestion: { protocol }, admission }: RequestInProgress,
  earlier: StoredAnswer,
  prepared: Prepared,
): Answer {
  const id = wholeBatchOf(earlier);
  if (id === undefined || admission === undefined) return earlier;
  const batch = receivedBatch(head, admission.tenant, prepared);
  const sealed = { ...seal(batch, requestContext()), id };
  return protocol.renderAccepted(sealed, batch.index, head, prepared.logs);
}

/** Reserves the inflated bytes before they exist, as far as their size is known. */
function prepareWithin(
  reservation: ByteReservation,
  scan: () => Prepared | Promise<Prepared>,
  body: Buffer,
  wanted: Preparation,
): Prepared | Promise<Prepared> {
  const { singleRun, multipart, logs } = wanted;
  const isCopied = singleRun !== undefined || multipart !== undefined || logs === true;
  const inflates = wanted.encoding !== 'identity' || isCopied;
  if (!inflates) return scan();
  const expected = Math.min(inflatedSizeHint(body, wanted.encoding), MAX_BODY_BYTES);
  // One of the body's copies is the inflated one.
  const reserved = Math.max(body.length, expected);
  const waiting = reserved > body.length ? reservation.obtain(reserved - body.length) : undefined;
  // A thread takes the bytes over.
  const sentBytes = body.length;
  const grow = (prepared: Prepared): Prepared => {
    // A merged or converted body is longer than the compressed one that it replaces; the queue has a copy.
    const longer = Math.max(0, prepared.body.length - sentBytes);
    const more = prepared.index.bytes.length + longer - reserved;
    if (more > 0) reservation.grow(more);
    return prepared;
  };
  const preparing = waiting === undefined ? scan() : waiting.then(scan);
  return preparing instanceof Promise ? preparing.then(grow) : grow(preparing);
}

function storable(reply: Answer): StoredAnswer {
  const { status, contentType, body } = reply;
  return { status, contentType, body: typeof body === 'string' ? Buffer.from(body) : body };
}
