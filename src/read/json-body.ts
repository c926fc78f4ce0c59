import { COPIES, checkDeclaredSize, readBody } from '../http/body.ts';
import type { ByteReservation } from '../http/bytes-in-flight.ts';
import type { Exchange } from '../http/exchange.ts';
import { contentEncodingOf, mediaTypeOf } from '../http/media.ts';
import { Refusal } from '../model/errors.ts';
import { BACKSLASH, COMMA, OPEN_BRACE, OPEN_BRACKET, QUOTE } from '../model/json/grammar.ts';
import type { Read } from './reads.ts';

const utf8 = new TextDecoder('utf-8', { fatal: true });

/** The JSON of a request to a read route, within `maxBytes`. Rejects with a `Refusal`. */
export async function jsonBody(exchange: Exchange, read: Read, maxBytes: number): Promise<unknown> {
  checkHead(exchange, maxBytes);
  return parseJsonBody(await readBody(exchange, memoryOf(read, maxBytes)));
}

/**
 * The most values of a body, each of which takes JSON.parse a microsecond or more. A thousand scores of Langfuse's clients have half as many;
 * a body of 1 MiB has room for ten times as many, which would hold the event loop up.
 */
const MAX_VALUES = 32_768;

/** The JSON of a body. Throws a `Refusal` (400, 413). */
function parseJsonBody(body: Buffer): unknown {
  if (valuesIn(body) > MAX_VALUES) {
    throw new Refusal('body_too_large', `The body has more than ${MAX_VALUES} values.`);
  }
  try {
    return JSON.parse(utf8.decode(body));
  } catch {
    throw new Refusal('invalid_json', 'The body is not valid JSON in UTF-8.');
  }
}

/** At least the values of a JSON text: each but the first follows a comma or an opening bracket. Any number for other bytes. */
function valuesIn(body: Buffer): number {
  let values = 1;
  let isInString = false;
  for (let at = 0; at < body.length; at++) {
    const byte = body[at];
    if (byte === QUOTE) isInString = !isInString;
    else if (isInString) at += byte === BACKSLASH ? 1 : 0;
    else if (byte === COMMA || byte === OPEN_BRACKET || byte === OPEN_BRACE) values++;
  }
  return values;
}

function checkHead({ head }: Exchange, maxBytes: number): void {
  if (mediaTypeOf(head) !== 'application/json') {
    throw new Refusal('unsupported_content_type', 'The body must be application/json.');
  }
  if (contentEncodingOf(head) !== 'identity') {
    throw new Refusal('unsupported_encoding', 'The body must not be compressed.', {
      acceptEncoding: 'identity',
    });
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
