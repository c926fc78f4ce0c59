import { constants as bufferConstants } from 'node:buffer';
import zlib from 'node:zlib';
import type { Encoding, SentEncoding } from './batch.ts';

/** The most bytes that deflate makes of one, whatever a size hint claims. */
const MAX_DEFLATE_RATIO = 1032;
const MIN_OUTPUT = 1024;
/** The largest first output buffer, whatever a size hint claims. */
const MAX_FIRST_OUTPUT = 32 * 1024 * 1024;
const { Z_FINISH } = zlib.constants;

/** A body that cannot be inflated: the result is larger than allowed, or the stream is damaged. */
export class InflateError extends Error {
  override readonly name = 'InflateError';
  readonly reason: 'too_large' | 'damaged';

  constructor(reason: 'too_large' | 'damaged', message: string, options: { cause?: unknown } = {}) {
    super(message, 'cause' in options ? { cause: options.cause } : undefined);
    this.reason = reason;
  }
}

/** Inflates one whole gzip body; `hint` is the expected size, which may be wrong. */
type Gunzip = (body: Buffer, maxBytes: number, hint: number) => Buffer;

let gunzip: Gunzip | undefined;

/**
 * The body without its compression. The caller owns the result; for `identity` it is `body` itself. Exactly
 * `maxBytes` bytes are accepted, one more throws an `InflateError`.
 */
export function inflateSync(body: Buffer, encoding: SentEncoding, maxBytes: number): Buffer {
  const limit = Math.min(maxBytes, bufferConstants.MAX_LENGTH - 1);
  if (encoding === 'identity') {
    if (body.length > limit) throw tooLarge();
    return body;
  }
  const hint = inflatedSizeHint(body, encoding);
  if (encoding === 'zstd') return decompressZstd(body, limit, hint);
  if (encoding === 'deflate') return decompress(body, zlib.inflateSync, limit, hint);
  gunzip ??= gunzipWithHandle() ?? gunzipWithPublicApi;
  return gunzip(body, limit, hint);
}

const GZIP_HEAD = Buffer.from([0x1f, 0x8b, 0x08, 0, 0, 0, 0, 0, 0, 0xff]);
/** Bytes of the head of a zlib body, and of the checksum at its end. */
const ZLIB_HEAD = 2;
const ZLIB_END = 4;

/**
 * The gzip body of a valid zlib body, which inflates to `inflated`: both frame the same compressed bytes, so nothing is compressed again.
 * The result owns its memory.
 */
export function gzipOfDeflate(body: Buffer, inflated: Buffer): Buffer {
  const compressed = body.subarray(ZLIB_HEAD, body.length - ZLIB_END);
  const whole = Buffer.allocUnsafeSlow(GZIP_HEAD.length + compressed.length + 8);
  GZIP_HEAD.copy(whole);
  compressed.copy(whole, GZIP_HEAD.length);
  whole.writeUInt32LE(zlib.crc32(inflated), whole.length - 8);
  whole.writeUInt32LE(inflated.length, whole.length - 4);
  return whole;
}

/** The inverse of `inflateSync`. */
export function deflateSync(bytes: Buffer, encoding: Encoding): Buffer {
  if (encoding === 'identity') return bytes;
  return encoding === 'gzip' ? zlib.gzipSync(bytes) : zlib.zstdCompressSync(bytes);
}

/**
 * The size that the sender declared for the inflated body, capped by what the compressed size allows. Exact for an
 * honest body of one member. It may choose between code paths, but is no limit.
 */
export function inflatedSizeHint(body: Buffer, encoding: SentEncoding): number {
  if (encoding === 'identity') return body.length;
  if (encoding === 'deflate') return body.length * 4;
  if (encoding === 'zstd') return zstdContentSize(body) ?? body.length * 4;
  if (body.length < 18) return 0;
  return Math.min(body.readUInt32LE(body.length - 4), body.length * MAX_DEFLATE_RATIO);
}

/** The members of Node's internal inflate handle that `inflaterOver` uses; none is a public API. */
type InflateHandle = {
  reset(): void;
  writeSync(
    flush: number,
    input: Buffer,
    inputOffset: number,
    inputLength: number,
    output: Buffer,
    outputOffset: number,
    outputLength: number,
  ): void;
  onerror: (message: string, errno: number, code: string) => void;
};

/**
 * Inflates every body through one handle, because creating a handle costs as much as inflating a typical request.
 * Undefined if this version of Node lacks the internals, or if they give a wrong result.
 */
export function gunzipWithHandle(): Gunzip | undefined {
  const stream = zlib.createGunzip() as unknown as {
    _handle?: Partial<InflateHandle>;
    _writeState?: Uint32Array;
  };
  const state = stream._writeState;
  if (
    typeof stream._handle?.writeSync !== 'function' ||
    typeof stream._handle.reset !== 'function'
  ) {
    return undefined;
  }
  if (!(state instanceof Uint32Array) || state.length < 2) return undefined;
  const inflate = inflaterOver(stream._handle as InflateHandle, state);
  return givesTheRightAnswer(inflate) ? inflate : undefined;
}

function inflaterOver(handle: InflateHandle, state: Uint32Array): Gunzip {
  let failure: string | undefined;
  handle.onerror = (message) => {
    failure = message;
  };
  return (body, maxBytes, hint) => {
    failure = undefined;
    handle.reset();
    // One byte more than expected: free space after a write marks the end of the output.
    let output: Buffer = Buffer.allocUnsafeSlow(firstOutput(hint, maxBytes));
    let read = 0;
    let written = 0;
    for (;;) {
      handle.writeSync(
        Z_FINISH,
        body,
        read,
        body.length - read,
        output,
        written,
        output.length - written,
      );
      if (failure !== undefined) throw damaged(failure);
      const roomLeft = state[0] ?? 0;
      read = body.length - (state[1] ?? 0);
      written = output.length - roomLeft;
      if (written > maxBytes) throw tooLarge();
      if (roomLeft !== 0) break;
      output = grown(output, maxBytes);
    }
    if (read < body.length) throw damaged('bytes after the end of the stream');
    return output.subarray(0, written);
  };
}

function grown(output: Buffer, maxBytes: number): Buffer {
  const larger = Buffer.allocUnsafeSlow(Math.min(output.length * 2, maxBytes + 1));
  output.copy(larger);
  return larger;
}

function givesTheRightAnswer(inflate: Gunzip): boolean {
  const text = Buffer.from('a body that is long enough to be worth compressing '.repeat(40));
  try {
    const body = zlib.gzipSync(text);
    return (
      inflate(body, text.length, 0).equals(text) && inflate(body, text.length, 5000).equals(text)
    );
  } catch {
    return false;
  }
}

/** The same through the public API, with a first output buffer for the whole result. */
export function gunzipWithPublicApi(body: Buffer, maxBytes: number, hint: number): Buffer {
  return decompress(body, zlib.gunzipSync, maxBytes, hint);
}

function decompressZstd(body: Buffer, maxBytes: number, hint: number): Buffer {
  return decompress(body, zlib.zstdDecompressSync, maxBytes, hint);
}

type Decompress = (
  body: Buffer,
  options: { chunkSize: number; maxOutputLength: number; info: boolean },
) => unknown;

function decompress(body: Buffer, call: Decompress, maxBytes: number, hint: number): Buffer {
  let result: { buffer: Buffer; engine: { bytesWritten: number } };
  try {
    result = call(body, {
      chunkSize: firstOutput(hint, maxBytes),
      // Node rejects a limit of zero.
      maxOutputLength: Math.max(1, maxBytes),
      info: true,
    }) as typeof result;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') throw tooLarge();
    throw damaged((error as Error).message, error);
  }
  if (result.buffer.length > maxBytes) throw tooLarge();
  // `bytesWritten` counts the bytes that the engine read.
  if (result.engine.bytesWritten < body.length) {
    throw damaged('bytes after the end of the stream');
  }
  return result.buffer;
}

function firstOutput(hint: number, maxBytes: number): number {
  return Math.max(Math.min(Math.max(hint, MIN_OUTPUT), maxBytes, MAX_FIRST_OUTPUT) + 1, 64);
}

/** The content size that a zstd frame header declares, if any; RFC 8878, 3.1.1.1. */
function zstdContentSize(body: Buffer): number | undefined {
  if (body.length < 6 || body.readUInt32LE(0) !== 0xfd2fb528) return undefined;
  const descriptor = body[4] ?? 0;
  const singleSegment = (descriptor & 0x20) !== 0;
  const dictionaryBytes = [0, 1, 2, 4][descriptor & 3] ?? 0;
  const at = 5 + (singleSegment ? 0 : 1) + dictionaryBytes;
  const sizeBytes = [singleSegment ? 1 : 0, 2, 4, 8][descriptor >> 6] ?? 0;
  if (sizeBytes === 0 || body.length < at + sizeBytes) return undefined;
  if (sizeBytes === 8)
    return Math.min(Number(body.readBigUInt64LE(at)), bufferConstants.MAX_LENGTH);
  // The two-byte form counts from 256.
  return body.readUIntLE(at, sizeBytes) + (sizeBytes === 2 ? 256 : 0);
}

function tooLarge(): InflateError {
  return new InflateError('too_large', 'The inflated body is larger than allowed.');
}

function damaged(why: string, cause?: unknown): InflateError {
  return new InflateError('damaged', `The compressed body is damaged: ${why}.`, { cause });
}
