import { EXPORT } from '../../helper/grpc.ts';

const FRAME = { DATA: 0, HEADERS: 1, SETTINGS: 4 } as const;
const END_HEADERS = 4;

/**
 * The bytes of an HTTP/2 connection that begins calls and sends 5 bytes of each: the prefix of a message of 24 MiB.
 * Written by hand, because 20,000 streams of an HTTP/2 client would slow down the process that measures.
 */
export function hoardedStreams(key: string, streams: number): Buffer {
  const headers = Buffer.concat(
    Object.entries({
      ':method': 'POST',
      ':scheme': 'http',
      ':path': EXPORT,
      ':authority': 'attack',
      'content-type': 'application/grpc',
      te: 'trailers',
      authorization: `Bearer ${key}`,
    }).map(([name, value]) => literal(name, value)),
  );
  const prefix = Buffer.from([0, 1, 0x80, 0, 0]);
  const calls = Array.from({ length: streams }, (_, i) => [
    frame(FRAME.HEADERS, END_HEADERS, 2 * i + 1, headers),
    frame(FRAME.DATA, 0, 2 * i + 1, prefix),
  ]);
  const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
  return Buffer.concat([preface, frame(FRAME.SETTINGS, 0, 0, Buffer.alloc(0)), ...calls.flat()]);
}

/** A header field of HPACK, not indexed and not compressed; shorter than 127 bytes each. */
function literal(name: string, value: string): Buffer {
  const text = (part: string) => Buffer.concat([Buffer.from([part.length]), Buffer.from(part)]);
  return Buffer.concat([Buffer.from([0]), text(name), text(value)]);
}

function frame(type: number, flags: number, stream: number, payload: Buffer): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head.writeUInt8(type, 3);
  head.writeUInt8(flags, 4);
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}
