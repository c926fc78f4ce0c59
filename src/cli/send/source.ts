import { constants, createReadStream } from 'node:fs';
import { access, stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { pipeline, Readable, type Transform } from 'node:stream';
import { createGunzip, createZstdDecompress } from 'node:zlib';
import { CommandError, EXIT } from '../exit-status.ts';
import type { Terminal } from '../terminal.ts';

/** A file to send, or stdin. */
export type InputSource = {
  /** As on the command line. */
  readonly name: string;
  /** Bytes before decompression; undefined if they are not known, as for a pipe. */
  readonly size: number | undefined;
  /** The decompressed content. `onRead` gets the bytes of each chunk before decompression. */
  open(onRead: (bytes: number) => void): AsyncIterable<Buffer>;
};

const STDIN = '-';
/** Small, so that the bar also moves evenly over a file that compresses well. */
const CHUNK_BYTES = 64 * 1024;

/** Checks every file before the first request. Rejects with a `CommandError` if one cannot be read. */
export function inputSourcesOf(
  files: readonly string[],
  terminal: Terminal,
): Promise<InputSource[]> {
  if (files.filter((file) => file === STDIN).length > 1) {
    throw new CommandError(EXIT.usage, 'stdin (-) can be read only once');
  }
  return Promise.all(
    files.map((file) => (file === STDIN ? stdinSource(terminal) : fileSource(file, terminal.cwd))),
  );
}

function stdinSource({ input }: Terminal): InputSource {
  if (input === undefined) throw new CommandError(EXIT.usage, 'stdin is not available');
  return { name: 'stdin', size: undefined, open: (onRead) => inflated(input(), onRead) };
}

async function fileSource(name: string, cwd: string): Promise<InputSource> {
  const path = resolve(cwd, name);
  const stats = await stat(path).catch((error: unknown) => cannotBeRead(name, error));
  if (stats.isDirectory()) throw new CommandError(EXIT.failed, `${name} is a directory`);
  await access(path, constants.R_OK).catch((error: unknown) => cannotBeRead(name, error));
  return {
    name,
    size: stats.isFile() ? stats.size : undefined,
    open: (onRead) => inflated(createReadStream(path, { highWaterMark: CHUNK_BYTES }), onRead),
  };
}

function cannotBeRead(name: string, error: unknown): never {
  const { code } = error as NodeJS.ErrnoException;
  const why = code === 'ENOENT' ? 'it does not exist' : (code ?? String(error));
  throw new CommandError(EXIT.failed, `${name} cannot be read: ${why}`);
}

/** Detects the compression by the first bytes; the name of the file does not matter. */
async function* inflated(
  stored: AsyncIterable<Uint8Array>,
  onRead: (bytes: number) => void,
): AsyncGenerator<Buffer> {
  const chunks = counted(stored, onRead);
  const head = await headOf(chunks);
  const decoder = decoderOf(head);
  if (decoder === undefined) {
    yield head;
    yield* chunks;
    return;
  }
  // `pipeline` closes both streams on an error or an early end; the loop below throws the error.
  pipeline(Readable.from(joined(head, chunks)), decoder, () => {});
  for await (const chunk of decoder) yield chunk as Buffer;
}

async function* counted(
  stored: AsyncIterable<Uint8Array>,
  onRead: (bytes: number) => void,
): AsyncGenerator<Buffer> {
  for await (const chunk of stored) {
    onRead(chunk.byteLength);
    yield Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
  }
}

/** At least the bytes that identify the compression, unless the source is shorter. */
async function headOf(chunks: AsyncGenerator<Buffer>): Promise<Buffer> {
  let head: Buffer = Buffer.alloc(0);
  while (head.length < MAGIC_BYTES) {
    const { value, done } = await chunks.next();
    if (done === true) break;
    head = head.length === 0 ? value : Buffer.concat([head, value]);
  }
  return head;
}

async function* joined(head: Buffer, rest: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  yield head;
  yield* rest;
}

const MAGIC_BYTES = 4;
const ZSTD_MAGIC = 0xfd2fb528;
/** A frame that decoders skip; some zstd tools write one first. */
const ZSTD_SKIPPABLE = 0x184d2a50;

function decoderOf(head: Buffer): Transform | undefined {
  if (head.length < MAGIC_BYTES) return undefined;
  if (head[0] === 0x1f && head[1] === 0x8b) return createGunzip();
  const magic = head.readUInt32LE(0);
  const isZstd = magic === ZSTD_MAGIC || (magic & 0xfffffff0) === ZSTD_SKIPPABLE;
  return isZstd ? createZstdDecompress() : undefined;
}
