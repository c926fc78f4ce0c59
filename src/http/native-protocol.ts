import type { RequestHead } from '../component/component.ts';
import type { Format, SentEncoding } from '../model/batch.ts';
import { Refusal } from '../model/errors.ts';
import { renderEnvelope, renderEnvelopeRefusal } from './envelope.ts';
import type { Protocol } from './ingest.ts';
import { acceptedEncoding, mediaTypeOf } from './media.ts';
import type { HttpProtocol } from './receiver.ts';

/** The encodings of bodies in JSON or in parts. */
export const ENCODINGS = ['identity', 'gzip', 'deflate', 'zstd'] as const;

/** Spec 8. */
const MAX_EVENTS = 1000;

/** The protocol of the native and the run endpoints: requests in JSON, answers in the native envelope. */
export function nativeProtocol(
  format: 'native' | 'runs',
  singleRun?: Protocol['singleRun'],
): HttpProtocol {
  return {
    renderRefusal: renderEnvelopeRefusal,
    checkHead: (head) => checkHead(head, format),
    maxItems: MAX_EVENTS,
    renderEmpty() {
      throw new Refusal('no_event_accepted', 'The request has no events.');
    },
    renderAccepted: renderEnvelope,
    ...(singleRun === undefined ? {} : { singleRun }),
  };
}

function checkHead(head: RequestHead, format: Format): { format: Format; encoding: SentEncoding } {
  if (mediaTypeOf(head) !== 'application/json') {
    throw new Refusal('unsupported_content_type', 'The content type must be application/json.');
  }
  return { format, encoding: acceptedEncoding(head, ENCODINGS) };
}
