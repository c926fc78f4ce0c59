import { randomBytes, randomInt } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import { encodeTraces } from '../../test/e2e/otlp-messages.ts';

/** The size of export requests. */
export type RequestShape = {
  readonly spans: number;
  readonly attributes: number;
  /** Bytes of each attribute's value. */
  readonly attributeBytes: number;
  readonly compression: 'gzip' | 'none';
};

export type Body = { readonly traceId: string; readonly bytes: Buffer };

/** Returns a function that makes bodies. All spans of a body share a trace id, which no other body has. */
export function bodyMaker(shape: RequestShape): () => Body {
  const templateId = randomBytes(16);
  const template = encodeTraces({
    resourceSpans: [
      {
        resource: {
          attributes: [
            { key: 'service.name', value: { stringValue: 'shop' } },
            { key: 'host.name', value: { stringValue: 'host-12' } },
          ],
        },
        scopeSpans: [
          {
            scope: { name: 'bench', version: '1' },
            spans: Array.from({ length: shape.spans }, (_, i) => ({
              traceId: templateId.toString('hex'),
              spanId: randomBytes(8).toString('hex'),
              name: `load-generator-span-${i}`,
              kind: 3,
              startTimeUnixNano: String(1_767_225_600_000_000_000n + BigInt(i) * 1_000_000n),
              endTimeUnixNano: String(1_767_225_600_000_000_000n + BigInt(i) * 1_234_567n),
              attributes: Array.from({ length: shape.attributes }, (_, a) => ({
                key: `load_generator.attribute_${a}`,
                value: { stringValue: prose(shape.attributeBytes) },
              })),
            })),
          },
        ],
      },
    ],
  });
  const places: number[] = [];
  for (let at = template.indexOf(templateId); at >= 0; at = template.indexOf(templateId, at + 16)) {
    places.push(at);
  }
  return () => {
    const traceId = randomBytes(16);
    for (const at of places) traceId.copy(template, at);
    const bytes = shape.compression === 'gzip' ? gzipSync(template) : Buffer.from(template);
    return { traceId: traceId.toString('hex'), bytes };
  };
}

/** A request with its head, as bytes for a socket. */
export function httpRequest(bytes: Buffer, compression: 'gzip' | 'none'): Buffer {
  const encoding = compression === 'gzip' ? 'content-encoding: gzip\r\n' : '';
  const head =
    'POST /v1/traces HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-protobuf\r\n' +
    `${encoding}content-length: ${bytes.length}\r\n\r\n`;
  return Buffer.concat([Buffer.from(head), bytes]);
}

const WORDS = (
  'the quick brown fox jumps over a lazy dog while models answer questions about weather travel ' +
  'orders prices contracts and code with tokens tools prompts context memory retrieval latency'
).split(' ');

/** Text that compresses about as well as prose. */
function prose(length: number): string {
  let text = '';
  while (text.length < length)
    text += `${WORDS[randomInt(WORDS.length)]}${randomInt(4) === 0 ? randomInt(1000) : ''} `;
  return text.slice(0, length);
}
