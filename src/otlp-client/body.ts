import type { Encoding } from '../model/batch.ts';
import { compressed } from '../model/compress.ts';
import type { ClientConfig } from './config.ts';

/** The body of a request, and the headers that describe it. */
export type RequestBody = {
  readonly bytes: Buffer;
  readonly headers: Readonly<Record<string, string>>;
};

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
  const bytesOf = (made: Buffer): RequestBody => ({ bytes: made, headers });
  if (encoding === configured || configured === 'identity') return bytesOf(bytes);
  const made = compressed(bytes, configured, config.compression_params.level);
  return made instanceof Promise ? made.then(bytesOf) : bytesOf(made);
}

function configuredEncoding({ compression }: ClientConfig): Encoding {
  return compression === 'none' ? 'identity' : compression;
}
