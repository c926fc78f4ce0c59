import { isSha256 } from '../model/attachments.ts';
import { PIECE_BYTES } from '../store/attachments.ts';
import { clientDrained } from './answer.ts';
import type { StoredRequest, StoreReading } from './stored-request.ts';
import { unknown } from './stored-request.ts';

/**
 * The bytes of an attachment. A client may have sent a page with scripts, so a browser gets them as a download, in a sandbox, and
 * only under types that it does not run.
 */
export const SHOW_ATTACHMENT: StoredRequest = {
  path: '/attachments/:sha256',
  parameters: [],
  work: showAttachment,
};

/** A piece from the store, and the bytes that wait for the client. */
const COPIES = 2;

/** Images without scripts, sound, films and text. */
const SAFE_TYPE =
  /^(?:image\/(?:png|jpeg|gif|webp)|(?:audio|video)\/[a-z0-9.+-]+|application\/pdf|text\/plain)$/;

async function showAttachment(reading: StoreReading): Promise<void> {
  const { exchange, tenant, store, read, beforePayloads } = reading;
  const { projectId } = tenant;
  const name = exchange.params.sha256 ?? '';
  if (!isSha256(name)) throw unknown('attachment');
  const sha256 = Buffer.from(name, 'hex');
  const found = await read.turn(() => store.attachments.find(projectId, sha256));
  if (found === undefined) throw unknown('attachment');
  await beforePayloads?.({ kind: 'attachment', id: name });
  const headers = headersOf(name, found.contentType);
  const { response } = exchange;
  if (isKnown(exchange.head.headers.get('if-none-match'), name)) {
    response.writeHead(304, headers).end();
    return;
  }
  read.hold(Math.min(found.bytes, PIECE_BYTES) * COPIES);
  for (let at = 0; at < found.bytes; at += PIECE_BYTES) {
    const piece = await read.turn(() =>
      store.attachments.read(projectId, sha256, at / PIECE_BYTES),
    );
    // It was removed since. An answer that has begun is cut.
    if (piece === undefined) throw unknown('attachment');
    if (at === 0) response.writeHead(200, { ...headers, 'content-length': found.bytes });
    if (!response.write(piece)) await clientDrained(exchange);
    read.signal.throwIfAborted();
  }
  if (found.bytes === 0) response.writeHead(200, { ...headers, 'content-length': 0 });
  response.end();
}

function headersOf(name: string, contentType: string): Record<string, string> {
  return {
    'content-type': SAFE_TYPE.test(contentType) ? contentType : 'application/octet-stream',
    'content-disposition': 'attachment',
    'x-content-type-options': 'nosniff',
    'content-security-policy': "default-src 'none'; sandbox",
    'cross-origin-resource-policy': 'same-origin',
    // The bytes of a hash never change. An erased attachment may stay in the client's cache for the time.
    'cache-control': 'private, max-age=86400, immutable',
    etag: `"${name}"`,
  };
}

function isKnown(values: readonly string[] | undefined, name: string): boolean {
  const tags = values?.join(',').split(',') ?? [];
  return tags.some((tag) => tag.trim() === '*' || tag.trim().replace(/^W\//, '') === `"${name}"`);
}
