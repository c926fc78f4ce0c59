import type { ByteReservation } from '../http/admission.ts';
import { COPIES, checkDeclaredSize, readBody } from '../http/body.ts';
import type { Exchange } from '../http/exchange.ts';
import { contentEncodingOf, mediaTypeOf } from '../http/media.ts';
import { Refusal } from '../model/errors.ts';
import type { Read } from './reads.ts';

const utf8 = new TextDecoder('utf-8', { fatal: true });

/** The JSON of a request to a read route, within `maxBytes`. Rejects with a `Refusal`. */
export async function jsonBody(exchange: Exchange, read: Read, maxBytes: number): Promise<unknown> {
  checkHead(exchange, maxBytes);
  return parseJsonBody(await readBody(exchange, memoryOf(read, maxBytes)));
}

/** The JSON of a body. Throws a `Refusal` (400). */
function parseJsonBody(body: Buffer): unknown {
  try {
    return JSON.parse(utf8.decode(body));
  } catch {
    throw new Refusal('invalid_json', 'The body is not valid JSON in UTF-8.');
  }
}

function checkHead({ head }: Exchange, maxBytes: number): void {
  if (mediaTypeOf(head) !== 'application/json') {
    throw new Refusal('unsupported_content_type', 'The body must be application/json.');
  }
  if (contentEncodingOf(head) !== 'identity') {
    throw new Refusal('unsupported_encoding', 'The body must not be compressed.');
  }
  checkDeclaredSize(head.declaredBytes, maxBytes);
}

/** The memory of a read, as the reader of a body reserves it. The read ends with its request, and releases all. */
function memoryOf(read: Read, maxBytes: number): ByteReservation {
  let held = 0;
  const grow = (bytes: number): void => {
    read.hold(held + bytes);
    held += bytes;
  };
  return {
    get held() {
      return held;
    },
    most: maxBytes * COPIES,
    expect() {},
    grow,
    obtain(bytes) {
      grow(bytes);
      return undefined;
    },
    yields: () => () => {},
    release() {},
  };
}
