import type { RequestProcessor } from '../../src/component/component.ts';
import { compressed } from '../../src/model/compress.ts';
import { ownMemoryOf } from '../../src/model/own-memory.ts';
import { compress } from '../../src/model/verbs.ts';
import type { CompressionConfig } from './config.ts';

/** A body that compresses worse stays as it is, so that no reader has to inflate it. */
const MAX_SHARE = 0.9;

/** Compresses bodies that arrive without compression, and those that processors before it have edited. */
export function createProcessor({
  min_bytes: minBytes,
  level,
}: CompressionConfig): RequestProcessor {
  return {
    async start() {},
    async shutdown() {},
    process(batch, request) {
      const { body, encoding, items, requestItems } = batch;
      // A batch that lost items is cut out of the inflated bytes when it is sealed.
      if (encoding !== 'identity' || body.length < minBytes || items < requestItems) {
        return undefined;
      }
      const keep = (smaller: Buffer): void => {
        if (smaller.length > body.length * MAX_SHARE) return;
        // The body stays until the answer.
        request.reserve(smaller.length);
        // zlib gives a short result as a part of its output memory.
        compress(batch, ownMemoryOf(smaller), 'zstd');
      };
      const made = compressed(body, 'zstd', level);
      return made instanceof Promise ? made.then(keep) : keep(made);
    },
  };
}
