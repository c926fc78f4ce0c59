import { promisify } from 'node:util';
import zlib from 'node:zlib';
import type { Encoding } from '../model/batch.ts';
import type { ClientConfig } from './config.ts';

/** A request's body and the headers that belong to it. */
export type RequestBody = {
  readonly bytes: Buffer;
  readonly headers: Readonly<Record<string, string>>;
};

/** Above this, compressing would hold up the event loop: a thread does it. */
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

/** It is compressed as is configured already. */
export function hasWanted(encoding: Encoding, config: ClientConfig): boolean {
  return encoding === wantedEncoding(config);
}

/** A body in the configured compression: as it is where it has that already, else compressed now. */
export async function requestBody(
  bytes: Buffer,
  encoding: Encoding,
  format: 'proto' | 'json',
  config: ClientConfig,
): Promise<RequestBody> {
  const contentType = format === 'json' ? 'application/json' : 'application/x-protobuf';
  const wanted = wantedEncoding(config);
  return {
    bytes: encoding === wanted ? bytes : await compressed(bytes, config),
    headers: {
      'content-type': contentType,
      ...(wanted === 'identity' ? {} : { 'content-encoding': wanted }),
    },
  };
}

function wantedEncoding({ compression }: ClientConfig): Encoding {
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
