import { promisify } from 'node:util';
import zlib from 'node:zlib';
import type { RequestProcessor } from '../../src/component/component.ts';
import { compress } from '../../src/model/verbs.ts';
import type { CompressionConfig } from './config.ts';

/** A larger body is compressed in a thread: at level 9 these take 2 ms. */
const SYNC_BYTES = 64 * 1024;
/** A body that compresses worse stays as it is, so that no reader has to inflate it. */
const MAX_SHARE = 0.9;

const zstdInThread = promisify(
  zlib.zstdCompress as (
    bytes: Buffer,
    options: zlib.ZstdOptions,
    done: (error: Error | null, compressed: Buffer) => void,
  ) => void,
);

/** Compresses bodies that arrive without compression, and those that processors before it have edited. */
export function createProcessor({
  min_bytes: minBytes,
  level,
}: CompressionConfig): RequestProcessor {
  const options = { params: { [zlib.constants.ZSTD_c_compressionLevel]: level } };
  return {
    async start() {},
    async shutdown() {},
    process(batch, request) {
      const { body, encoding, items, requestItems } = batch;
      // A batch that lost items is cut out of the inflated bytes when it is sealed.
      if (encoding !== 'identity' || body.length < minBytes || items < requestItems) {
        return undefined;
      }
      const keep = (compressed: Buffer): void => {
        if (compressed.length > body.length * MAX_SHARE) return;
        // The body stays until the answer.
        request.reserve(compressed.length);
        compress(batch, compressed, 'zstd');
      };
      if (body.length > SYNC_BYTES) return zstdInThread(body, options).then(keep);
      return keep(zlib.zstdCompressSync(body, options));
    },
  };
}
