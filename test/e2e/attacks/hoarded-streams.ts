import { EXPORT } from '../../helper/grpc.ts';
import { http2Frame, literalField } from '../../helper/http2-frame.ts';

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
    }).map(([name, value]) => literalField(name, value)),
  );
  const prefix = Buffer.from([0, 1, 0x80, 0, 0]);
  const calls = Array.from({ length: streams }, (_, i) => [
    http2Frame(FRAME.HEADERS, END_HEADERS, 2 * i + 1, headers),
    http2Frame(FRAME.DATA, 0, 2 * i + 1, prefix),
  ]);
  const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
  return Buffer.concat([
    preface,
    http2Frame(FRAME.SETTINGS, 0, 0, Buffer.alloc(0)),
    ...calls.flat(),
  ]);
}
