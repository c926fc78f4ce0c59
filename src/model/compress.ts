import { promisify } from 'node:util';
import zlib from 'node:zlib';
import type { Encoding } from './batch.ts';

/** A larger body is compressed in a thread of the pool, because it would delay the event loop. */
const SYNC_BYTES = 64 * 1024;

type InThread<Options> = (
  bytes: Buffer,
  options: Options,
  done: (error: Error | null, result: Buffer) => void,
) => void;

const gzipInThread = promisify(zlib.gzip as InThread<zlib.ZlibOptions>);
const zstdInThread = promisify(zlib.zstdCompress as InThread<zlib.ZstdOptions>);

/** The body in another encoding, at a level or at its usual one. A promise for a body of more than 64 KiB. */
export function compressed(
  bytes: Buffer,
  encoding: Exclude<Encoding, 'identity'>,
  level?: number,
): Buffer | Promise<Buffer> {
  const isSmall = bytes.length <= SYNC_BYTES;
  if (encoding === 'gzip') {
    const options = level === undefined ? {} : { level };
    return isSmall ? zlib.gzipSync(bytes, options) : gzipInThread(bytes, options);
  }
  const key = zlib.constants.ZSTD_c_compressionLevel;
  const options = level === undefined ? {} : { params: { [key]: level } };
  return isSmall ? zlib.zstdCompressSync(bytes, options) : zstdInThread(bytes, options);
}
