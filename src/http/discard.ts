import type { RequestHead } from '../component/component.ts';
import type { SentEncoding } from '../model/batch.ts';
import { Refusal, refusalOf } from '../model/errors.ts';
import { SMALL_BODY_BYTES } from '../model/formats.ts';
import { InflateError, inflateSync } from '../model/inflate.ts';
import { ClientGone, reserveFirst } from './body.ts';
import { clientOf } from './bytes-in-flight.ts';
import type { Answer } from './exchange.ts';
import type { Incoming, Ingestion } from './ingest.ts';

/** The rules for requests whose data is read and not stored. */
export type DiscardProtocol = {
  /** Throws a `Refusal` for an unsupported content type or encoding. */
  checkHead(head: RequestHead): { encoding: SentEncoding };
  /** `body` is inflated; undefined if it is too large to look at here. Throws a `Refusal` if it is damaged. */
  render(head: RequestHead, body: Buffer | undefined): Answer;
};

/**
 * Answers a request whose data has no place here, so that its client does not report an error each time. The key is
 * checked as for ingestion; nothing is counted, stored or queued.
 */
export async function discardRequest(
  incoming: Incoming,
  ingestion: Omit<Ingestion, 'protocol'>,
  protocol: DiscardProtocol,
): Promise<void> {
  const { head } = incoming;
  const { pipeline, fallback, bytesInFlight, refusals, logger } = ingestion;
  const ends: (() => void)[] = [];
  try {
    const admission = await pipeline.admitRead(head, fallback, 'ingest:write');
    ends.push(() => admission.release());
    const named = protocol.checkHead(head);
    const reservation = bytesInFlight.open(clientOf(head, admission.tenant, fallback));
    ends.push(() => reservation.release());
    await reserveFirst(reservation, head.declaredBytes, named.encoding);
    const { body, encoding } = await incoming.read(reservation, named.encoding);
    incoming.answer(protocol.render(head, smallBody(body, encoding)));
  } catch (error) {
    if (error instanceof ClientGone) return;
    if (!(error instanceof Refusal)) {
      logger.warn({ err: error, path: head.path }, 'Request to be discarded failed');
    }
    const refusal = refusalOf(error);
    refusals.add(1, { code: refusal.code });
    incoming.refuse(refusal);
  } finally {
    for (const end of ends.reverse()) end();
  }
}

function smallBody(body: Buffer, encoding: SentEncoding): Buffer | undefined {
  try {
    return inflateSync(body, encoding, SMALL_BODY_BYTES);
  } catch (error) {
    if (!(error instanceof InflateError)) throw error;
    if (error.reason === 'too_large') return undefined;
    throw new Refusal('invalid_request', error.message, { cause: error });
  }
}
