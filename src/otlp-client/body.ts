import { promisify } from 'node:util';
import zlib from 'node:zlib';
import type { Encoding } from '../model/batch.ts';
import type { ClientConfig } from './config.ts';

/** The body of a request, and the headers that describe it. */
export type RequestBody = {
  readonly bytes: Buffer;
  readonly headers: Readonly<Record<string, string>>;
};

/** A larger body is compressed in a thread of the pool, because it would delay the event loop. */
const SYNC_BYTES = 64 * 1024;

const gzipInThread = promisify(
  zlib.gzip as (
    bytes: Buffer,
    options: zlib.ZlibOptions,
    done: (error: Error | null, result: Buffer) => void,
  ) => void,
);
const zstdInThread = promisify(
  zlib.zstdCompress as (
    bytes: Buffer,
    options: zlib.ZstdOptions,
    done: (error: Error | null, result: Buffer) => void,
  ) => void,
);

/** Whether a body in this encoding is sent unchanged. */
export function hasConfiguredEncoding(encoding: Encoding, config: ClientConfig): boolean {
  return encoding === configuredEncoding(config);
}

/** A body in the configured compression. A body in another encoding must be inflated before. */
export function requestBody(
  bytes: Buffer,
  encoding: Encoding,
  format: 'proto' | 'json',
  config: ClientConfig,
): RequestBody | Promise<RequestBody> {
  const contentType = format === 'json' ? 'application/json' : 'application/x-protobuf';
  const configured = configuredEncoding(config);
  const headers = {
    'content-type': contentType,
    ...(configured === 'identity' ? {} : { 'content-encoding': configured }),
  };
  if (encoding === configured) return { bytes, headers };
  return compressed(bytes, config).then((made) => ({ bytes: made, headers }));
}

function configuredEncoding({ compression }: ClientConfig): Encoding {
  return compression === 'none' ? 'identity' : compression;
}

async function compressed(
  bytes: Buffer,
  { compression, compression_params: { level } }: ClientConfig,
): Promise<Buffer> {
  switch (compression) {
    case 'none':
      return bytes;
    case 'gzip': {
      const options = level === undefined ? {} : { level };
      return bytes.length <= SYNC_BYTES
        ? zlib.gzipSync(bytes, options)
        : gzipInThread(bytes, options);
    }
    case 'zstd': {
      const key = zlib.constants.ZSTD_c_compressionLevel;
      const options = level === undefined ? {} : { params: { [key]: level } };
      return bytes.length <= SYNC_BYTES
        ? zlib.zstdCompressSync(bytes, options)
        : zstdInThread(bytes, options);
    }
  }
}
